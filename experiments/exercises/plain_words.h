// Rewrites the message of a failed GoogleTest assertion in plain words.
#pragma once

#include <string>

namespace folio::exercises {

/// Returns a GoogleTest failure in plain words: "The number is 2, but has to be 3." and the assertion's explanation;
/// for EXPECT_TRUE only the explanation. Messages in an unknown format are returned unchanged.
[[nodiscard]] std::string in_plain_words(const std::string& message);

}  // namespace folio::exercises
