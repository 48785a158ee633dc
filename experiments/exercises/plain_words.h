// Rewrites the message of a failed GoogleTest assertion in plain words.
#pragma once

#include <string>

namespace folio::exercises {

/// Returns "The number is 2, but has to be 3." followed by the assertion's own explanation for EXPECT_EQ, _NEAR, _LT
/// and so on; only the explanation for EXPECT_TRUE. Messages in an unknown format are returned unchanged.
[[nodiscard]] std::string in_plain_words(const std::string& message);

}  // namespace folio::exercises
