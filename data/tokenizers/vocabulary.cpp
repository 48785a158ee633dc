#include "data/tokenizers/vocabulary.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "core/error.h"

namespace folio::data {

using core::require;

void validate(const Vocabulary& v, const std::string& where) {
  const size_t n = v.pieces.size();
  require(n > 0 && n <= size_t{INT32_MAX}, "{}: {} pieces are not a valid vocabulary size", where, n);
  require(v.types.size() == n, "{}: {} pieces, but {} types", where, n, v.types.size());
  for (const SpecialIdName& name : kSpecialIds) {
    const int32_t id = v.*name.id;
    const int32_t least = name.id == &Vocabulary::eos ? 0 : -1;
    require(id >= least && std::cmp_less(id, n), "{}: the {} token is {}, but IDs are 0 to {}", where, name.name, id,
            n - 1);
  }
  require(v.bos >= 0 || !v.add_bos, "{}: a BOS token must be added, but the vocabulary has none", where);
  for (const int32_t id : v.prefix) {
    require(id >= 0 && std::cmp_less(id, n), "{}: a token added before each text is {}, but IDs are 0 to {}", where, id,
            n - 1);
  }
  for (size_t i = 0; i < n; ++i) {
    const auto type = static_cast<int32_t>(v.types[i]);
    require(type >= 1 && type <= 6, "{}: piece {} has the unknown type {}", where, i, type);
  }
}

TokenFlags flags_of(const Vocabulary& v, int32_t id) {
  const auto found = v.flags.find(id);
  return found == v.flags.end() ? TokenFlags() : found->second;
}

std::vector<int32_t> beginning_of(const Vocabulary& v) {
  if (!v.prefix.empty()) return v.prefix;
  return v.add_bos ? std::vector<int32_t>{v.bos} : std::vector<int32_t>{};
}

std::vector<bool> ends_of_text(const Vocabulary& v) {
  constexpr std::array<std::string_view, 11> kNames = {
      "<|endoftext|>", "<|end_of_text|>", "<|im_end|>", "<|eot_id|>",      "<|eom_id|>", "<|end|>",
      "<end_of_turn>", "<|user|>",        "<|return|>", "<|observation|>", "<|call|>"};
  const auto has = [&](const char* name) { return std::ranges::find(v.pieces, name) != v.pieces.end(); };
  const bool is_gpt_oss = has("<|return|>") && has("<|call|>");  // there, <|end|> ends only the analysis
  std::vector<bool> ends(v.pieces.size());
  for (const int32_t id : {v.eos, v.eot, v.bos}) {
    if (id >= 0) ends[static_cast<size_t>(id)] = true;
  }
  for (size_t i = 0; i < ends.size(); ++i) {
    if (v.types[i] != PieceType::Control) continue;
    const bool is_end = std::ranges::find(kNames, v.pieces[i]) != kNames.end();
    ends[i] = ends[i] || (is_end && !(is_gpt_oss && v.pieces[i] == "<|end|>"));
  }
  return ends;
}

}  // namespace folio::data
