// Reads and writes byte-level BPE vocabularies in GGUF files. As in llama.cpp, tokenizer.ggml.model is "gpt2", and
// normal pieces are spelled in the byte-level alphabet.
#include <algorithm>
#include <utility>

#include "core/error.h"
#include "data/tokenizers/bpe.h"
#include "data/tokenizers/byte_level.h"
#include "data/tokenizers/gguf/gguf_vocabulary.h"

namespace folio::data {
namespace {

using core::fail;
using core::printable;

// Parses a merge "left right". Both pieces are spelled in the byte-level alphabet, which has no space.
BpeVocabulary::Merge merge_of(std::string_view text, const TextIndex& tokens, const std::string& where) {
  const size_t space = text.find(' ');
  if (space != std::string_view::npos) {
    const std::string_view left = text.substr(0, space);
    const std::string_view right = text.substr(space + 1);
    const BpeVocabulary::Merge merge = {
        .left = tokens.find(left), .right = tokens.find(right), .joined = tokens.find(std::string(left).append(right))};
    if (merge.left >= 0 && merge.right >= 0 && merge.joined >= 0) return merge;
  }
  fail("{}: the merge \"{}\" does not join two tokens into a third", where, printable(text));
}

// Returns true if ignore_merges changes no tokens, because the merges produce each piece that can be a word.
bool merges_produce_pieces(const BpeTokenizer& tokenizer) {
  BpeVocabulary v = tokenizer.vocabulary();
  v.ignore_merges = !v.ignore_merges;
  const BpeTokenizer other(std::move(v), tokenizer.kind());
  return std::ranges::all_of(tokenizer.vocabulary().pieces,
                             [&](const std::string& piece) { return tokenizer.encode(piece) == other.encode(piece); });
}

}  // namespace

BpeTokenizer BpeTokenizer::from_gguf(const core::GgufFile& file) {
  const std::string where = file.path().string() + ": tokenizer";
  const std::vector<std::string>& tokens = file.list<std::string>("tokenizer.ggml.tokens");
  const PreTokenizerName& pre = pre_tokenizer_named(file.string("tokenizer.ggml.pre"), where);
  BpeVocabulary v;
  v.pre_tokenizer = pre.kind;
  v.ignore_merges = pre.ignore_merges;
  v.nfc = pre.nfc;
  v.add_bos = pre.add_bos;
  gguf::read_byte_level(file, where, v);
  TextIndex index(tokens);
  for (size_t i = 0; i < tokens.size(); ++i) {
    const bool is_new = index.find(tokens[i]) < 0;
    if (!is_new && v.types[i] == PieceType::Normal) {
      fail("{}: token {} (\"{}\") occurs twice", where, i, printable(tokens[i]));
    }
    if (is_new) index.add(static_cast<int32_t>(i));
  }
  for (const std::string& merge : file.list<std::string>("tokenizer.ggml.merges")) {
    const BpeVocabulary::Merge ids = merge_of(merge, index, where);
    if (joins(v, ids)) v.merges.push_back(ids);
  }
  return {std::move(v), where};
}

core::GgufMetadata BpeTokenizer::vocabulary_to_gguf() const {
  const BpeVocabulary& v = vocabulary_;
  const PreTokenizerName* pre = name_of(v.pre_tokenizer, v.ignore_merges, v.nfc);
  if (pre == nullptr && merges_produce_pieces(*this)) pre = name_of(v.pre_tokenizer, !v.ignore_merges, v.nfc);
  core::require(pre != nullptr,
                "GGUF has no name for this pre-tokenizer {} merges in words that are tokens and {} normalization; use "
                "another tokenizer",
                v.ignore_merges ? "without" : "with", v.nfc ? "with" : "without");
  const std::vector<std::string> tokens = to_byte_level(v);
  std::vector<std::string> merges;
  for (const auto& [left, right, joined] : v.merges) {
    merges.push_back(tokens[static_cast<size_t>(left)] + " " + tokens[static_cast<size_t>(right)]);
  }
  return gguf::byte_level(v, std::string(pre->name), std::move(merges));
}

}  // namespace folio::data
