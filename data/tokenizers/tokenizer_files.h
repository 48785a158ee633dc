// Loads the tokenizer of a model from a GGUF file, a Hugging Face directory or a separate file. Each function throws
// core::Error if the tokenizer is damaged or not supported.
#pragma once

#include "core/weights.h"
#include "data/tokenizers/tokenizer.h"

namespace folio::data {

/// Reads the tokenizer of a GGUF file: byte-level BPE or characters ("gpt2"), or SentencePiece ("llama").
[[nodiscard]] std::unique_ptr<Tokenizer> tokenizer_from_gguf(const core::GgufFile& file);

/// Reads tokenizer.json and tokenizer_config.json of a character-level, byte-level BPE or SentencePiece tokenizer, the
/// last with byte fallback. Pads the vocabulary to vocab_size of config.json. `vocab_size` replaces it in directories
/// without that file, such as checkpoints of adapters (0: no padding).
[[nodiscard]] std::unique_ptr<Tokenizer> tokenizer_from_hf(const std::filesystem::path& directory,
                                                           int64_t vocab_size = 0);

/// Loads a tokenizer.json or its directory, a GGUF file, or llama2.c's tokenizer.bin, and recognizes the format by its
/// content. Throws core::Error if the tokenizer does not have `vocab_size` tokens (0: any number).
[[nodiscard]] std::unique_ptr<Tokenizer> load_tokenizer(const std::filesystem::path& path, int64_t vocab_size);

/// Loads the tokenizer in `file`, or the model's own if `file` is empty. Throws core::Error if the model has none, or
/// if model and tokenizer differ in the size of the vocabulary.
[[nodiscard]] std::unique_ptr<Tokenizer> load_tokenizer(const core::StoredModel& model, const std::string& file);

}  // namespace folio::data
