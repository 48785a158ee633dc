// The message of a failed assertion without GoogleTest's own words.
#pragma once

#include <string>

namespace folio::exercises {

/// "The number is 2, but has to be 3." and the assertion's own explanation, for a message of EXPECT_EQ, _NEAR, _LT and
/// so on; of EXPECT_TRUE the explanation alone. What is in no known form is returned as it is.
[[nodiscard]] std::string in_plain_words(const std::string& message);

}  // namespace folio::exercises
