// Numbers as JSON writes them, compared as decimals: nothing is rounded.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "infer/forms/grammar.h"

namespace folio::infer::forms {

/// 0.DIGITS times ten to the power of `exponent`; zero has no digits. The first and the last digit are not 0.
struct Decimal {
  bool negative = false;
  std::string digits{};
  int64_t exponent = 0;

  Decimal() = default;
  /// `text` is a number of JSON. Throws core::Error if its exponent has more than 4 digits.
  explicit Decimal(std::string_view text);

  [[nodiscard]] bool is_zero() const { return digits.empty(); }
  [[nodiscard]] bool is_integer() const { return static_cast<int64_t>(digits.size()) <= exponent || is_zero(); }
  /// None where it has a fraction, or more than 15 digits.
  [[nodiscard]] std::optional<int64_t> to_integer() const;
};

/// Less than, equal to, or greater than 0.
[[nodiscard]] int compare(const Decimal& a, const Decimal& b);

struct NumberBound {
  Decimal value;
  bool exclusive = false;
};

struct NumberRange {
  std::optional<NumberBound> least{};
  std::optional<NumberBound> most{};
  uint32_t multiple_of = 1;  ///< of integers
};

/// -?(0|[1-9][0-9]*), but not -0: multiples in the range. Throws core::Error if it takes too many states.
[[nodiscard]] Grammar::Part integer_part(Grammar& grammar, const NumberRange& range);

/// Numbers without an exponent, and with one of -307 to 307 behind one digit that is not 0 and its fraction: programs
/// that read doubles find neither infinity, nor 0 where there is a digit that is not. Where the range has no end on the
/// number's side of 0, other digits may come before an exponent of -99 to 99. An exclusive bound other than 0 is taken
/// as the next double, so that these programs agree.
[[nodiscard]] Grammar::Part number_part(Grammar& grammar, const NumberRange& range);

}  // namespace folio::infer::forms
