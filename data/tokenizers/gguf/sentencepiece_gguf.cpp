// Reads and writes SentencePiece vocabularies in GGUF files. As in llama.cpp, tokenizer.ggml.model is "llama".
#include <utility>

#include "core/error.h"
#include "data/tokenizers/gguf/gguf_vocabulary.h"
#include "data/tokenizers/sentencepiece.h"

namespace folio::data {

SentencePieceTokenizer SentencePieceTokenizer::from_gguf(const core::GgufFile& file) {
  SentencePieceVocabulary v;
  v.pieces = file.list<std::string>("tokenizer.ggml.tokens");
  v.scores = file.list<float>("tokenizer.ggml.scores");
  const auto& types = file.list<int32_t>("tokenizer.ggml.token_type");
  v.unk = !types.empty() && types[0] == static_cast<int32_t>(PieceType::Unknown) ? 0 : -1;
  gguf::read(file, v);
  v.add_space_prefix = file.boolean("tokenizer.ggml.add_space_prefix", true);
  gguf::read_flags(file, v);
  return {std::move(v), file.path().string() + ": tokenizer"};
}

core::GgufMetadata SentencePieceTokenizer::vocabulary_to_gguf() const {
  const SentencePieceVocabulary& v = vocabulary_;
  core::require(!v.split_words,
                "a GGUF cannot store that words are split at each space, as the pre-tokenizer Metaspace of this "
                "tokenizer does; set its \"split\" to false to convert it anyway");
  core::GgufMetadata metadata = {
      {"tokenizer.ggml.model", std::string("llama")},          {"tokenizer.ggml.pre", std::string("default")},
      {"tokenizer.ggml.tokens", core::GgufArray{v.pieces}},    {"tokenizer.ggml.scores", core::GgufArray{v.scores}},
      {"tokenizer.ggml.add_space_prefix", v.add_space_prefix},
  };
  gguf::append(v, metadata);
  return metadata;
}

}  // namespace folio::data
