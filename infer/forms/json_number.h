// JSON numbers, compared as exact decimals.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "infer/forms/grammar.h"

namespace folio::infer::forms {

/// 0.DIGITS times ten to the power of `exponent`. DIGITS has no leading or trailing 0; for zero it is empty.
struct Decimal {
  bool negative = false;
  std::string digits{};
  int64_t exponent = 0;

  Decimal() = default;
  /// `text` is a JSON number. Throws core::Error if its exponent has more than 5 characters, a minus included.
  explicit Decimal(std::string_view text);

  [[nodiscard]] bool is_zero() const { return digits.empty(); }
  [[nodiscard]] bool is_integer() const { return static_cast<int64_t>(digits.size()) <= exponent || is_zero(); }
  /// Returns the value as an integer; nullopt if it has a fraction or more than 15 digits.
  [[nodiscard]] std::optional<int64_t> to_integer() const;
};

/// Returns a number less than, equal to or greater than 0, like strcmp.
[[nodiscard]] int compare(const Decimal& a, const Decimal& b);

struct NumberBound {
  Decimal value;
  bool exclusive = false;
};

struct NumberRange {
  std::optional<NumberBound> least{};
  std::optional<NumberBound> most{};
  uint32_t multiple_of = 1;  ///< for integers only
};

/// Matches -?(0|[1-9][0-9]*) except -0: multiples within the range. Throws core::Error if this needs too many states.
[[nodiscard]] Grammar::Part integer_part(Grammar& grammar, const NumberRange& range);

/// Matches numbers of the range with or without an exponent. An exponent of -307 to 307 may follow one nonzero digit
/// and its fraction, so parsing as a double gives neither infinity nor a false 0. If the range is unbounded on the
/// number's side of 0, other digits may precede an exponent of -99 to 99. A nonzero exclusive bound becomes the next
/// double.
[[nodiscard]] Grammar::Part number_part(Grammar& grammar, const NumberRange& range);

}  // namespace folio::infer::forms
