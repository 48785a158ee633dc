// Helpers shared by the tests: random inputs, and a comparison whose message explains the likely cause.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "core/random.h"

namespace folio::exercises {

using Floats = std::vector<float>;

/// Returns n random numbers in [-1, 1) that depend only on the seed.
inline Floats random_floats(size_t n, uint64_t seed) {
  Floats x(n);
  for (size_t i = 0; i < n; ++i) x[i] = static_cast<float>(2.0 * core::random_uniform(seed, i) - 1.0);
  return x;
}

/// Formats a number with up to six significant digits.
inline std::string shown(double x) {
  if (std::isnan(x)) return "NaN";
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", x);
  return text;
}

/// Expects equal lengths and elements that differ by at most `tolerance`; NaN always fails. `why` explains the usual
/// cause of a difference.
inline void expect_close(const Floats& actual, const Floats& expected, double tolerance, const std::string& why) {
  ASSERT_EQ(actual.size(), expected.size()) << "This is how many numbers there are.\n" << why;
  for (size_t i = 0; i < actual.size(); ++i) {
    if (std::abs(static_cast<double>(actual[i]) - expected[i]) <= tolerance) continue;
    const std::string which = actual.size() == 1 ? "The number" : "Number " + std::to_string(i);
    ADD_FAILURE() << which << " is " << shown(actual[i]) << ", but has to be " << shown(expected[i]) << ".\n" << why;
    return;
  }
}

}  // namespace folio::exercises
