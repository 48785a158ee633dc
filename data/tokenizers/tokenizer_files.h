// Loads the tokenizer of a model from a GGUF file, a Hugging Face directory or a file of its own. Each function throws
// core::Error if the tokenizer is damaged or of a kind that is not supported.
#pragma once

#include "core/weights.h"
#include "data/tokenizers/tokenizer.h"

namespace folio::data {

/// By tokenizer.ggml.model: "gpt2" is byte-level BPE or characters, "llama" is SentencePiece.
[[nodiscard]] std::unique_ptr<Tokenizer> tokenizer_from_gguf(const core::GgufFile& file);

/// From tokenizer.json and tokenizer_config.json: characters, byte-level BPE, or SentencePiece with byte fallback.
[[nodiscard]] std::unique_ptr<Tokenizer> tokenizer_from_hf(const std::filesystem::path& directory);

/// From a tokenizer.json or its directory, a GGUF file, or a tokenizer.bin of llama2.c, recognized by content.
/// `vocab_size` is the model's, or 0 if unknown. Throws core::Error if the tokenizer's differs.
[[nodiscard]] std::unique_ptr<Tokenizer> load_tokenizer(const std::filesystem::path& path, int64_t vocab_size);

/// The tokenizer in `file`, or where that is empty, the model's own. Throws core::Error if the model has none, or if
/// the vocabulary is not the model's.
[[nodiscard]] std::unique_ptr<Tokenizer> load_tokenizer(const core::StoredModel& model, const std::string& file);

}  // namespace folio::data
