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
  const MergeReader merges(tokens);
  for (const std::string& merge : file.list<std::string>("tokenizer.ggml.merges")) {
    const size_t space = merge.find(' ');  // the byte-level alphabet has no space
    const bool known = space != std::string::npos && merges.append(v, merge.substr(0, space), merge.substr(space + 1));
    if (!known) {
      core::fail("{}: the merge \"{}\" does not join two tokens into a third", where, core::printable(merge));
    }
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
  return gguf::byte_level(v, std::string(pre->name), spelled_merges(v, to_byte_level(v)));
}

}  // namespace folio::data
