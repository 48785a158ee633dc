// What GGUF files have for every kind of vocabulary: types, special ids and flags; and the pieces of byte-level
// vocabularies, spelled in the byte-level alphabet. The keys are llama.cpp's.
#pragma once

#include <string>
#include <vector>

#include "core/error.h"
#include "core/formats/gguf.h"
#include "data/tokenizers/vocabulary.h"

namespace folio::data::gguf {

/// Reads tokenizer.ggml.token_type, and the ids and flags that the file has; the others keep their values.
void read(const core::GgufFile& file, Vocabulary& vocabulary);

/// The flags of added tokens, for which a GGUF has no key: as in llama.cpp, those of Phi-3's by the model's name. After
/// read() and the pieces.
void read_flags(const core::GgufFile& file, Vocabulary& vocabulary);

/// Appends them to `metadata`.
void append(const Vocabulary& vocabulary, core::GgufMetadata& metadata);

/// Reads these and tokenizer.ggml.tokens, converted to bytes. Throws core::Error, prefixed with `where`, if the
/// vocabulary is not valid or a normal piece is not in the alphabet.
void read_byte_level(const core::GgufFile& file, const std::string& where, Vocabulary& vocabulary);

/// The metadata of a "gpt2" vocabulary. `pre` names its pre-tokenizer; `merges` are spelled in the alphabet.
[[nodiscard]] core::GgufMetadata byte_level(const Vocabulary& vocabulary, std::string pre,
                                            std::vector<std::string> merges);

/// A list in the metadata. Throws core::Error that names the key if it is missing or has items of another type.
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
