// Reads and writes vocabularies in GGUF metadata, under llama.cpp's keys: types of pieces, special IDs and flags for
// every kind of vocabulary, and also the pieces for byte-level vocabularies.
#pragma once

#include <string>
#include <vector>

#include "core/formats/gguf.h"
#include "data/tokenizers/vocabulary.h"

namespace folio::data::gguf {

/// Reads the types of pieces, and those special IDs and flags that the file has. Missing ones keep their values.
void read(const core::GgufFile& file, Vocabulary& vocabulary);

/// Sets `rstrip` of added tokens if the model's name contains "phi-3" or "phi3", as llama.cpp does, since GGUF does not
/// store flags. Types and pieces must have been read before.
void read_flags(const core::GgufFile& file, Vocabulary& vocabulary);

/// Appends the vocabulary's types, special IDs and flags to `metadata`.
void append(const Vocabulary& vocabulary, core::GgufMetadata& metadata);

/// Reads types, special IDs, flags and pieces, which are converted from the byte-level alphabet to bytes. Throws
/// core::Error, prefixed with `where`, if the vocabulary is invalid or a normal piece is not in the alphabet.
void read_byte_level(const core::GgufFile& file, const std::string& where, Vocabulary& vocabulary);

/// Returns the metadata of a "gpt2" vocabulary. `pre` names its pre-tokenizer; `merges` are in the byte-level alphabet.
[[nodiscard]] core::GgufMetadata byte_level(const Vocabulary& vocabulary, std::string pre,
                                            std::vector<std::string> merges);

}  // namespace folio::data::gguf
