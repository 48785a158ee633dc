// The tokenizer of a model, wherever it lies: inside a GGUF file, in a Hugging Face directory, or in a file of its own.
// Each throws core::Error if the tokenizer is of a kind that is not supported, or damaged.
#pragma once

#include "data/tokenizers/tokenizer.h"

namespace folio::data {

/// By tokenizer.ggml.model: "gpt2", which is byte-level BPE or one character a token, or "llama", SentencePiece.
[[nodiscard]] std::unique_ptr<Tokenizer> tokenizer_from_gguf(const core::GgufFile& file);

/// From tokenizer.json and tokenizer_config.json: characters, byte-level BPE, or SentencePiece with byte fallback.
[[nodiscard]] std::unique_ptr<Tokenizer> tokenizer_from_hf(const std::filesystem::path& directory);

/// From a tokenizer.json or its directory, a GGUF file, or a tokenizer.bin of llama2.c, told apart by their content.
/// `vocab_size` is the model's, or 0 where that is not known; throws core::Error where the tokenizer has another.
[[nodiscard]] std::unique_ptr<Tokenizer> load_tokenizer(const std::filesystem::path& path, int64_t vocab_size);

}  // namespace folio::data
