#include "data/tokenizers/vocabulary.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace folio::data {

using core::require;

void validate(const Vocabulary& v, const std::string& where) {
  const size_t n = v.pieces.size();
  require(n > 0 && n <= size_t{INT32_MAX}, "{}: {} pieces make no vocabulary", where, n);
  require(v.types.size() == n, "{}: {} pieces, but {} types", where, n, v.types.size());
  for (const SpecialIdName& name : kSpecialIds) {
    const int32_t id = v.*name.id;
    const int32_t least = name.id == &Vocabulary::eos ? 0 : -1;
    require(id >= least && std::cmp_less(id, n), "{}: the {} token is {}, but ids go from 0 to {}", where, name.name,
            id, n - 1);
  }
  require(v.bos >= 0 || !v.add_bos, "{}: a BOS token is to be added, but there is none", where);
  for (size_t i = 0; i < n; ++i) {
    const auto type = static_cast<int32_t>(v.types[i]);
    require(type >= 1 && type <= 6, "{}: piece {} has the unknown type {}", where, i, type);
  }
}

std::vector<bool> ends_of_text(const Vocabulary& v) {
  constexpr std::array<std::string_view, 7> kNames = {"<|endoftext|>", "<|end_of_text|>", "<|im_end|>",   "<|eot_id|>",
                                                      "<|eom_id|>",    "<|end|>",         "<end_of_turn>"};
  std::vector<bool> ends(v.pieces.size());
  for (const int32_t id : {v.eos, v.eot, v.bos}) {
    if (id >= 0) ends[static_cast<size_t>(id)] = true;
  }
  for (size_t i = 0; i < ends.size(); ++i) {
    if (v.types[i] != PieceType::Control) continue;
    ends[i] = ends[i] || std::find(kNames.begin(), kNames.end(), v.pieces[i]) != kNames.end();
  }
  return ends;
}

void read_gguf(const core::GgufFile& file, Vocabulary& v) {
  v.types.clear();
  for (const int32_t type : gguf_list<int32_t>(file, "tokenizer.ggml.token_type")) {
    v.types.push_back(static_cast<PieceType>(type));
  }
  for (const SpecialIdName& name : kSpecialIds) {
    const std::string key = fmt::format("tokenizer.ggml.{}_token_id", name.gguf);
    const int64_t id = file.integer(key, v.*name.id);
    require(std::in_range<int32_t>(id), "{}: {} is {}, which is no id", file.path().string(), key, id);
    v.*name.id = static_cast<int32_t>(id);
  }
  v.add_bos = file.boolean("tokenizer.ggml.add_bos_token", v.add_bos);
  v.add_eos = file.boolean("tokenizer.ggml.add_eos_token", v.add_eos);
}

void append_gguf(const Vocabulary& v, core::GgufMetadata& metadata) {
  std::vector<int32_t> types;
  types.reserve(v.types.size());
  for (const PieceType type : v.types) types.push_back(static_cast<int32_t>(type));
  metadata.emplace_back("tokenizer.ggml.token_type", core::GgufArray{std::move(types)});
  for (const SpecialIdName& name : kSpecialIds) {
    if (v.*name.id < 0) continue;
    metadata.emplace_back(fmt::format("tokenizer.ggml.{}_token_id", name.gguf), static_cast<uint32_t>(v.*name.id));
  }
  metadata.emplace_back("tokenizer.ggml.add_bos_token", v.add_bos);
  metadata.emplace_back("tokenizer.ggml.add_eos_token", v.add_eos);
}

}  // namespace folio::data
