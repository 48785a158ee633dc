// Generates JSON lines about people, and checks lines against their JSON schema.
#pragma once

#include <cstdint>
#include <string>

#include "experiments/28_forms/walks.h"

namespace folio::experiments {

/// A JSON schema for lines such as {"name":"Ada","age":36,"pets":[{"kind":"cat","name":"Tom"}]}.
extern const char* const kPersonSchema;

/// Returns `n_lines` random lines that match kPersonSchema, generated from the seed.
[[nodiscard]] std::string people(uint64_t seed, size_t n_lines);

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
