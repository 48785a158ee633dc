#include "data/tokenizers/gguf/gguf_vocabulary.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "core/error.h"
#include "data/tokenizers/byte_level.h"

namespace folio::data::gguf {

using core::require;

void read(const core::GgufFile& file, Vocabulary& v) {
  v.types.clear();
  for (const int32_t type : file.list<int32_t>("tokenizer.ggml.token_type")) {
    v.types.push_back(static_cast<PieceType>(type));
  }
  for (const SpecialIdName& name : kSpecialIds) {
    const std::string key = fmt::format("tokenizer.ggml.{}_token_id", name.gguf);
    const int64_t id = file.integer(key, v.*name.id);
    require(std::in_range<int32_t>(id), "{}: {} is {}, which is not a valid ID", file.path().string(), key, id);
    v.*name.id = static_cast<int32_t>(id);
  }
  v.add_bos = file.boolean("tokenizer.ggml.add_bos_token", v.add_bos);
  v.add_eos = file.boolean("tokenizer.ggml.add_eos_token", v.add_eos);
}

void read_flags(const core::GgufFile& file, Vocabulary& v) {
  const auto* stored = std::get_if<std::string>(file.find("general.name"));
  if (stored == nullptr) return;
  std::string name = *stored;
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (name.find("phi-3") == std::string::npos && name.find("phi3") == std::string::npos) return;
  for (size_t i = 0; i < v.pieces.size() && i < v.types.size(); ++i) {
    const std::string& piece = v.pieces[i];
    const bool added = is_special(v.types[i]) || v.types[i] == PieceType::UserDefined;
    if (!added || piece == "<unk>" || piece == "<s>" || piece == "<|endoftext|>") continue;
    v.flags[static_cast<int32_t>(i)].rstrip = true;
  }
}

void append(const Vocabulary& v, core::GgufMetadata& metadata) {
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

void read_byte_level(const core::GgufFile& file, const std::string& where, Vocabulary& v) {
  read(file, v);
  v.pieces = file.list<std::string>("tokenizer.ggml.tokens");
  validate(v, where);
  read_flags(file, v);
  from_byte_level(v, where);
}

core::GgufMetadata byte_level(const Vocabulary& v, std::string pre, std::vector<std::string> merges) {
  core::GgufMetadata metadata = {
      {"tokenizer.ggml.model", std::string("gpt2")},
      {"tokenizer.ggml.pre", std::move(pre)},
      {"tokenizer.ggml.tokens", core::GgufArray{to_byte_level(v)}},
      {"tokenizer.ggml.merges", core::GgufArray{std::move(merges)}},
  };
  append(v, metadata);
  return metadata;
}

}  // namespace folio::data::gguf
