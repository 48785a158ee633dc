// What a crash of the reader's code means, in words.
#pragma once

#include <string>

namespace folio::exercises {

/// `errors` is what the process wrote to stderr: a sanitizer's report, or nothing. `signal` is the one that ended it,
/// or 0.
[[nodiscard]] std::string crash_in_words(const std::string& errors, int signal);

/// Where the report begins in `errors`; what stands before it is the reader's own.
[[nodiscard]] size_t report_begins(const std::string& errors);

}  // namespace folio::exercises
