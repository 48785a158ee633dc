// Lines of JSON, made up; the form that they have; and a small model that is trained on them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "experiments/28_forms/walks.h"

namespace folio::experiments {

/// A JSON schema: {"name":"Ada","age":36,"pets":[{"kind":"cat","name":"Tom"}]}
extern const char* const kPersonSchema;

/// So many lines, each of which fits the schema. The same for the same seed.
[[nodiscard]] std::string people(uint64_t seed, size_t n_lines);

/// The model that build/train makes of `text` in so many steps, in seconds; its file is under `directory`. Throws
/// core::Error if there is no build/train, or if it fails.
[[nodiscard]] std::filesystem::path trained_on(const std::filesystem::path& text,
                                               const std::filesystem::path& directory, int64_t steps);
[[nodiscard]] bool has_trainer();

/// Where a text leaves the form, if it does.
struct Verdict {
  bool fits;          ///< it is one of the form's texts, perhaps with something behind it
  size_t n_good;      ///< bytes before the first that may not come
  std::string where;  ///< what stands there by the text so far: "a key", "age", …
};
[[nodiscard]] Verdict judged(infer::forms::Form& form, const std::string& text);

/// Whether a line that fits stands at the beginning of `text`: by a reader of JSON, which knows nothing of forms.
[[nodiscard]] bool begins_with_person(const std::string& text);

}  // namespace folio::experiments
