// The vocabulary of llama2.c (https://github.com/karpathy/llama2.c) and its file tokenizer.bin. llama2.c has fixed IDs:
// 0 is unknown, 1 is BOS, which also stops generation, 2 is EOS, 3 + b is byte b, and other pieces follow. Encoding
// looks up pieces by text. Bytes are spelled like "<0x0A>", and a character without a piece is encoded as its bytes.
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

/// Converts a character or SentencePiece vocabulary. Throws core::Error for other kinds.
///
/// Characters below U+0080 get the IDs of their bytes; the others get IDs from 259 on. Unused IDs share the embedding
/// row of `<|endoftext|>`, since a trained model rarely predicts this token. There is always a piece " ", because
/// llama2.c prepends a space to every prompt.
///
/// A SentencePiece vocabulary keeps its IDs. Throws core::Error if the special or byte IDs differ from llama2.c's, if
/// the tokenizer does not add exactly BOS and a space, or if a piece is user-defined or has a zero byte.
[[nodiscard]] Llama2cVocabulary to_llama2c(const Tokenizer& tokenizer);

/// Writes tokenizer.bin, little-endian: the length of the longest piece (int32), then for each piece its score (float),
/// its length (int32) and its bytes.
void write_llama2c_tokenizer(const std::filesystem::path& path, const Llama2cVocabulary& vocabulary);

/// Reads tokenizer.bin for a model of `vocab_size` tokens; if 0, any number is accepted. The result tokenizes text like
/// llama2.c, with two differences: U+2581 counts as a space, and an invalid UTF-8 byte is a symbol of its own (llama2.c
/// joins it to the preceding character). Throws core::Error unless the format is that of write_llama2c_tokenizer().
[[nodiscard]] SentencePieceTokenizer read_llama2c_tokenizer(const std::filesystem::path& path, int64_t vocab_size);

}  // namespace folio::data
