// Generates JSON lines about people, trains a small model on them, and checks its outputs against the JSON schema.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "experiments/28_forms/walks.h"

namespace folio::experiments {

/// A JSON schema for lines such as {"name":"Ada","age":36,"pets":[{"kind":"cat","name":"Tom"}]}.
extern const char* const kPersonSchema;

/// Returns `n_lines` random lines that match kPersonSchema, generated from the seed.
[[nodiscard]] std::string people(uint64_t seed, size_t n_lines);

/// Trains a model for `steps` steps, which takes seconds, by running build/train on the file `text`. Returns the path
/// of the model, in `directory`. Throws core::Error if build/train doesn't exist or fails.
[[nodiscard]] std::filesystem::path trained_on(const std::filesystem::path& text,
                                               const std::filesystem::path& directory, int64_t steps);
[[nodiscard]] bool has_trainer();

/// The result of checking a text against a form.
struct Verdict {
  bool fits;          ///< true if the first n_good bytes are a complete match of the form
  size_t n_good;      ///< number of bytes before the first byte that the form rejects
  std::string where;  ///< what was expected at that byte: "a key", "age", …
};
[[nodiscard]] Verdict judged(infer::forms::Form& form, const std::string& text);

/// Returns true if `text` begins with an object that matches kPersonSchema, as checked by a JSON parser, not by a form.
[[nodiscard]] bool begins_with_person(const std::string& text);

}  // namespace folio::experiments
