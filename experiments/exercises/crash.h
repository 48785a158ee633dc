// Explains crashes of the reader's code in plain words.
#pragma once

#include <string>

namespace folio::exercises {

/// Returns an explanation of a crash. `errors` is the process's stderr, with or without a sanitizer report; `signal` is
/// the signal that ended the process, or 0.
[[nodiscard]] std::string crash_in_words(const std::string& errors, int signal);

/// Returns the offset of the sanitizer's report in `errors`, or errors.size() if there is none. The output before the
/// report was printed by the reader's code.
[[nodiscard]] size_t report_begins(const std::string& errors);

}  // namespace folio::exercises
