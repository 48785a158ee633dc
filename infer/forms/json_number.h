// JSON numbers as exact decimals, and the grammar parts that match numbers in a range.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "infer/forms/grammar.h"

namespace folio::infer::forms {

/// A decimal number: 0.DIGITS times 10^exponent. DIGITS has no leading or trailing 0; for zero it is empty.
struct Decimal {
  bool negative = false;
  std::string digits{};
  int64_t exponent = 0;

  Decimal() = default;
  /// Parses a JSON number. Throws core::Error if its exponent has more than 5 characters, including a minus sign.
  explicit Decimal(std::string_view text);

  [[nodiscard]] bool is_zero() const { return digits.empty(); }
  [[nodiscard]] bool is_integer() const { return static_cast<int64_t>(digits.size()) <= exponent || is_zero(); }
  /// Returns the value as an integer; nullopt if it has a fraction or more than 15 digits.
  [[nodiscard]] std::optional<int64_t> to_integer() const;
};

/// Returns a negative number, 0 or a positive number if a < b, a == b or a > b, like strcmp.
[[nodiscard]] int compare(const Decimal& a, const Decimal& b);

struct NumberBound {
  Decimal value;
  bool exclusive = false;
};

struct NumberRange {
  std::optional<NumberBound> least{};
  std::optional<NumberBound> most{};
  uint32_t multiple_of = 1;  ///< divisor of all allowed values; used only by integer_part()
};

/// Returns the part for the range's multiples of `multiple_of`, spelled -?(0|[1-9][0-9]*) except -0. Throws core::Error
/// if it needs too many states.
[[nodiscard]] Grammar::Part integer_part(Grammar& grammar, const NumberRange& range);

/// Returns the part for numbers in the range, with or without an exponent. A nonzero digit with an optional fraction
/// may have an exponent of -307 to 307, so that parsing as a double neither overflows nor yields 0. If no bound limits
/// the positive (or negative) numbers, other digits may have an exponent of -99 to 99. An exclusive bound other than 0
/// is replaced with an inclusive one: the nearest double inside the range.
[[nodiscard]] Grammar::Part number_part(Grammar& grammar, const NumberRange& range);

}  // namespace folio::infer::forms
