// The vocabulary of llama2.c (https://github.com/karpathy/llama2.c) and its file, tokenizer.bin. That program
// hard-wires ids: 0 unknown, 1 BOS, at which it also stops, 2 EOS, 3 + b the byte b; other pieces follow. A piece is
// found by its text; pieces 3 + b are spelt "<0x0A>", and a character that is no piece falls to its bytes' ids.
#pragma once

#include <filesystem>

#include "data/tokenizers/char_tokenizer.h"
#include "data/tokenizers/sentencepiece.h"

namespace folio::data {

struct Llama2cVocabulary {
  std::vector<std::string> pieces;  ///< as the file holds them: spaces are spaces
  std::vector<float> scores;
  std::vector<int32_t> source_row;  ///< of each id: the row that it had in the embeddings of the model
};

/// Characters below U+0080 get their byte's id, the others ids from 259 on. Ids that no text uses take the row of
/// `<|endoftext|>`, which the model has learnt not to say. There is always a piece " ", since that program puts one in
/// front of every prompt.
[[nodiscard]] Llama2cVocabulary to_llama2c(const CharTokenizer& tokenizer);

/// The vocabulary as it is. Throws core::Error where its ids are not the hard-wired ones, or it does not begin a text
/// with BOS and a space, or it has user-defined pieces.
[[nodiscard]] Llama2cVocabulary to_llama2c(const SentencePieceTokenizer& tokenizer);

/// Either of the two. Throws core::Error for a tokenizer of another kind.
[[nodiscard]] Llama2cVocabulary to_llama2c(const Tokenizer& tokenizer);

/// tokenizer.bin: int32, the bytes of the longest piece; then for each piece a float score, an int32 length and as many
/// bytes; little-endian.
void write_llama2c_tokenizer(const std::filesystem::path& path, const Llama2cVocabulary& vocabulary);

/// The inverse, for a model of `vocab_size` tokens, or 0 where that is not known. Its tokens are those of llama2.c but
/// for U+2581, which is a space here, and bytes that are not UTF-8: that program takes them together with the character
/// before them. Throws core::Error if the file does not fit, byte by byte.
[[nodiscard]] SentencePieceTokenizer read_llama2c_tokenizer(const std::filesystem::path& path, int64_t vocab_size);

}  // namespace folio::data
