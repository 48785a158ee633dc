// The vocabulary of llama2.c (https://github.com/karpathy/llama2.c) and its file tokenizer.bin. llama2.c has fixed IDs:
// 0 is unknown, 1 is BOS, which also stops generation, 2 is EOS, 3 + b is byte b, and other pieces follow. It finds
// pieces by their text: bytes are spelled "<0x0A>", and a character without a piece is encoded as its bytes.
#pragma once

#include <filesystem>

#include "data/tokenizers/char_tokenizer.h"
#include "data/tokenizers/sentencepiece.h"

namespace folio::data {

struct Llama2cVocabulary {
  std::vector<std::string> pieces;  ///< spelled as in the file, with spaces instead of U+2581
  std::vector<float> scores;
  std::vector<int32_t> source_row;  ///< for each ID, its row in the model's embedding
};

/// Converts a character vocabulary. Characters below U+0080 get their byte's ID, others IDs from 259 on. Unused IDs use
/// the embedding of `<|endoftext|>`, which training makes improbable. There is always a piece " ", because llama2.c
/// prepends a space to every prompt.
[[nodiscard]] Llama2cVocabulary to_llama2c(const CharTokenizer& tokenizer);

/// Converts a SentencePiece vocabulary and keeps its IDs. Throws core::Error if the IDs are not llama2.c's, if texts
/// do not begin with BOS and a space, or if there are user-defined pieces.
[[nodiscard]] Llama2cVocabulary to_llama2c(const SentencePieceTokenizer& tokenizer);

/// Converts a character or SentencePiece vocabulary. Throws core::Error for other kinds.
[[nodiscard]] Llama2cVocabulary to_llama2c(const Tokenizer& tokenizer);

/// Writes tokenizer.bin, little-endian: the length of the longest piece (int32), then for each piece its score (float),
/// its length (int32) and its bytes.
void write_llama2c_tokenizer(const std::filesystem::path& path, const Llama2cVocabulary& vocabulary);

/// Reads tokenizer.bin for a model of `vocab_size` tokens; if 0, any number is accepted. Text is tokenized as by
/// llama2.c, with two differences: U+2581 is a space here, and llama2.c appends invalid UTF-8 to the character before.
/// Throws core::Error unless the file has exactly the format of write_llama2c_tokenizer().
[[nodiscard]] SentencePieceTokenizer read_llama2c_tokenizer(const std::filesystem::path& path, int64_t vocab_size);

}  // namespace folio::data
