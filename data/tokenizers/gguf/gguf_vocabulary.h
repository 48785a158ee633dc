// The parts of a GGUF that all kinds of vocabularies have: types, special IDs and flags. Also the pieces of byte-level
// vocabularies, spelled in the byte-level alphabet. The keys are llama.cpp's.
#pragma once

#include <string>
#include <vector>

#include "core/error.h"
#include "core/formats/gguf.h"
#include "data/tokenizers/vocabulary.h"

namespace folio::data::gguf {

/// Reads tokenizer.ggml.token_type, and the IDs and flags that the file has; others keep their values.
void read(const core::GgufFile& file, Vocabulary& vocabulary);

/// Sets the flags of added tokens, for which GGUF has no key: like llama.cpp, recognizes Phi-3 by the model's name.
/// Requires types, from read(), and pieces.
void read_flags(const core::GgufFile& file, Vocabulary& vocabulary);

/// Appends the vocabulary's types, special IDs and flags to `metadata`.
void append(const Vocabulary& vocabulary, core::GgufMetadata& metadata);

/// Reads types, special IDs, flags and tokenizer.ggml.tokens, converted to bytes. Throws core::Error, prefixed with
/// `where`, if the vocabulary is invalid or a normal piece is not in the byte-level alphabet.
void read_byte_level(const core::GgufFile& file, const std::string& where, Vocabulary& vocabulary);

/// Returns the metadata of a "gpt2" vocabulary. `pre` is its pre-tokenizer; `merges` are spelled in the alphabet.
[[nodiscard]] core::GgufMetadata byte_level(const Vocabulary& vocabulary, std::string pre,
                                            std::vector<std::string> merges);

/// Returns a list in the metadata. Throws core::Error with the key if it is missing or has items of another type.
template <typename Item>
[[nodiscard]] const std::vector<Item>& list(const core::GgufFile& file, const std::string& key) {
  const core::GgufValue* value = file.find(key);
  const auto* array = value == nullptr ? nullptr : std::get_if<core::GgufArray>(value);
  const auto* items = array == nullptr ? nullptr : std::get_if<std::vector<Item>>(&array->items);
  const char* of = std::is_floating_point_v<Item> ? "32-bit floating-point numbers" : "32-bit integers";
  core::require(items != nullptr, "{}: the metadata key {} is missing or not a list of {}", file.path().string(), key,
                of);
  return *items;
}

}  // namespace folio::data::gguf
