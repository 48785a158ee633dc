// The vocabulary of llama2.c (https://github.com/karpathy/llama2.c) and its file, tokenizer.bin. That program
// hard-codes ids: 0 unknown, 1 BOS, at which it also stops, 2 EOS, 3 + b the byte b; other pieces follow. It looks
// pieces up by their text; pieces 3 + b are spelled "<0x0A>", and a character without a piece gets its bytes' ids.
#pragma once

#include <filesystem>

#include "data/tokenizers/char_tokenizer.h"
#include "data/tokenizers/sentencepiece.h"

namespace folio::data {

struct Llama2cVocabulary {
  std::vector<std::string> pieces;  ///< as in the file, with spaces instead of marks
  std::vector<float> scores;
  std::vector<int32_t> source_row;  ///< of each id: its row in the model's embeddings
};

/// Characters below U+0080 get their byte's id, the others ids from 259 on. Unused ids take the row of
/// `<|endoftext|>`, whose probability training has lowered. There is always a piece " ", since llama2.c puts a space
/// before every prompt.
[[nodiscard]] Llama2cVocabulary to_llama2c(const CharTokenizer& tokenizer);

/// The vocabulary unchanged. Throws core::Error if its ids are not the hard-coded ones, if it does not begin a text
/// with BOS and a space, or if it has user-defined pieces.
[[nodiscard]] Llama2cVocabulary to_llama2c(const SentencePieceTokenizer& tokenizer);

/// Of either kind. Throws core::Error for other kinds.
[[nodiscard]] Llama2cVocabulary to_llama2c(const Tokenizer& tokenizer);

/// Writes tokenizer.bin, little-endian: the length of the longest piece (int32), then for each piece its score (float),
/// its length (int32) and its bytes.
void write_llama2c_tokenizer(const std::filesystem::path& path, const Llama2cVocabulary& vocabulary);

/// The inverse, for a model of `vocab_size` tokens, or 0 if unknown. Texts get the same tokens as in llama2.c, except
/// for U+2581, which is a space here, and for bytes that are not UTF-8, which llama2.c joins to the character before.
/// Throws core::Error if the file does not have exactly this form.
[[nodiscard]] SentencePieceTokenizer read_llama2c_tokenizer(const std::filesystem::path& path, int64_t vocab_size);

}  // namespace folio::data
