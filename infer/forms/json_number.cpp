#include "infer/forms/json_number.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <vector>

#include "core/error.h"
#include "infer/forms/character_automaton.h"
#include "infer/forms/regex.h"

namespace folio::infer::forms {
namespace {

constexpr size_t kMostBoundDigits = 1'000;
constexpr int64_t kMostExponent = 307;      // maximum |exponent| of d.ddd, so that no double overflows or underflows
constexpr int64_t kMostOtherExponent = 99;  // maximum |exponent| of a number that is not of the form d.ddd
constexpr int kMostExponentDigits = 3;
constexpr std::string_view kWhole = "(?:0|[1-9][0-9]*)";
constexpr std::string_view kFraction = "(?:\\.[0-9]+)?";

// Returns a regular expression for the numbers in [low, high], written with exactly `n` digits.
std::string digits_between(int64_t low, int64_t high, int n) {
  constexpr std::array<int64_t, kMostExponentDigits + 1> kPowers{1, 10, 100, 1000};
  if (low == 0 && high == kPowers[static_cast<size_t>(n)] - 1) return fmt::format("[0-9]{{{}}}", n);
  const int64_t unit = kPowers[static_cast<size_t>(n - 1)];
  std::vector<std::string> all;
  for (int64_t digit = low / unit; digit <= high / unit; ++digit) {
    const int64_t below = digit == low / unit ? low % unit : 0;
    const int64_t above = digit == high / unit ? high % unit : unit - 1;
    all.push_back(fmt::format("{}{}", digit, n == 1 ? "" : digits_between(below, above, n - 1)));
  }
  return fmt::format("(?:{})", fmt::join(all, "|"));
}

// Returns a regular expression for the exponents in [low, high], such as e+03; an empty string if there are none.
std::string exponents(int64_t low, int64_t high) {
  std::vector<std::string> all;
  const auto add = [&](const char* sign, int64_t first, int64_t last) {
    int64_t largest = 9;  // largest number with n digits
    for (int n = 1; n <= kMostExponentDigits; ++n, largest = 10 * largest + 9) {
      if (first <= std::min(last, largest)) all.push_back(sign + digits_between(first, std::min(last, largest), n));
    }
  };
  add("\\+?", std::max<int64_t>(low, 0), std::min(high, kMostExponent));
  add("-", std::max<int64_t>(-high, 0), std::min(-low, kMostExponent));
  return all.empty() ? "" : fmt::format("[eE](?:{})", fmt::join(all, "|"));
}

// A bound on the absolute value of a number.
struct SizeBound {
  Decimal value;
  bool is_least;
  bool exclusive;
};

// Returns the bounds on the absolute values of the numbers in `range` with a minus sign (or without one); nullopt if a
// bound with the other sign excludes them all.
std::optional<std::vector<SizeBound>> size_bounds(const NumberRange& range, bool negative) {
  std::vector<SizeBound> bounds;
  for (const bool is_least : {true, false}) {
    const auto& bound = is_least ? range.least : range.most;
    if (!bound) continue;
    if (bound->value.is_zero() || bound->value.negative == negative) {
      bounds.push_back({bound->value, is_least != negative, bound->exclusive});
    } else if (is_least == negative) {  // otherwise the bound always holds: x >= -5 for x >= 0, or x <= 5 for x <= 0
      return std::nullopt;
    }
  }
  return bounds;
}

// Applies a bound to `sizes`, the absolute values that can be written in one notation, with or without an exponent.
// `larger` matches the numbers with more digits before the point (or a larger exponent) than the bound. `same` matches
// those with as many digits (or the same exponent), which are compared with `digits`, the bound's digits and point. An
// empty expression matches no numbers.
void limit(CharacterAutomaton& sizes, const SizeBound& bound, const std::string& larger, const std::string& same,
           std::string_view digits, const core::WorkBudget& budget) {
  core::require(digits.size() <= kMostBoundDigits, "a bound has more than {} digits", kMostBoundDigits);
  const auto of = [&](const std::string& expression) {
    return CharacterAutomaton(parse_regex(expression, RegexMatch::Whole, RegexDialect::Re2, budget), budget);
  };
  const bool or_equal = bound.is_least == bound.exclusive;  // true: `below` includes the bound itself
  CharacterAutomaton below = larger.empty() ? sizes : sizes.but_not(of(larger));
  if (!same.empty()) below = below.but_not(of(same).and_also(CharacterAutomaton::at_least(digits, or_equal, budget)));
  sizes = bound.is_least ? sizes.but_not(below) : sizes.and_also(below);
}

void limit_plain(CharacterAutomaton& sizes, const SizeBound& bound, const core::WorkBudget& budget) {
  const auto n_whole = static_cast<size_t>(std::max<int64_t>(bound.value.exponent, 1));
  std::string digits = bound.value.digits;
  if (bound.value.exponent < 1) digits.insert(0, static_cast<size_t>(1 - bound.value.exponent), '0');
  if (digits.size() < n_whole) digits.resize(n_whole, '0');
  if (digits.size() > n_whole) digits.insert(n_whole, 1, '.');
  limit(sizes, bound, fmt::format("[1-9][0-9]{{{},}}{}", n_whole, kFraction),
        fmt::format("[0-9]{{{}}}{}", n_whole, kFraction), digits, budget);
}

// Applies a bound to numbers in scientific notation (d or d.ddd with an exponent), none of which is 0.
void limit_scientific(CharacterAutomaton& sizes, const SizeBound& bound, const core::WorkBudget& budget) {
  const auto with = [](const std::string& some) { return some.empty() ? some : "[0-9.]+" + some; };
  if (bound.value.is_zero()) return limit(sizes, bound, with(exponents(-kMostExponent, kMostExponent)), "", "", budget);
  const int64_t exponent = bound.value.exponent - 1;
  std::string digits = bound.value.digits;
  if (digits.size() > 1) digits.insert(1, 1, '.');
  limit(sizes, bound, with(exponents(std::max(exponent + 1, -kMostExponent), kMostExponent)),
        with(exponents(exponent, exponent)), digits, budget);
}

Grammar::Part part_in(Grammar& grammar, const NumberRange& range, bool is_integer) {
  // The automata of the notations, compiled once. Without bounds, exponents may follow any digits, not only d or d.ddd.
  const auto all = [](const std::string& expression) {
    return CharacterAutomaton(parse_regex(expression), core::WorkBudget());
  };
  static const std::string kOne = fmt::format("[1-9]{}{}", kFraction, exponents(-kMostExponent, kMostExponent));
  static const CharacterAutomaton kNatural = all(std::string(kWhole));
  static const CharacterAutomaton kPositive = all("[1-9][0-9]*");
  static const CharacterAutomaton kPlain = all(fmt::format("{}{}", kWhole, kFraction));
  static const CharacterAutomaton kScientific = all(kOne);
  static const CharacterAutomaton kAnyScientific =
      all(fmt::format("{}|{}{}{}", kOne, kWhole, kFraction, exponents(-kMostOtherExponent, kMostOtherExponent)));
  std::vector<Grammar::Part> ways;
  for (const bool negative : {false, true}) {
    const auto bounds = size_bounds(range, negative);
    if (!bounds) continue;
    const auto add = [&](const CharacterAutomaton& sizes) {
      ways.push_back(grammar.sequence(std::array{grammar.text(negative ? "-" : ""), sizes.build_bytes(grammar)}));
    };
    CharacterAutomaton plain(!is_integer ? kPlain : negative ? kPositive : kNatural, grammar.budget());
    for (const SizeBound& bound : *bounds) limit_plain(plain, bound, grammar.budget());
    const uint32_t divisor = range.multiple_of;
    add(divisor == 1 ? plain : plain.and_also(CharacterAutomaton::multiples(divisor, grammar.budget())));
    if (is_integer) continue;
    CharacterAutomaton scientific(bounds->empty() ? kAnyScientific : kScientific, grammar.budget());
    for (const SizeBound& bound : *bounds) limit_scientific(scientific, bound, grammar.budget());
    add(scientific);
  }
  return grammar.choice(ways);
}

// Replaces an exclusive bound other than 0 with an inclusive one: the next double in the direction of `towards`.
void round_exclusive(std::optional<NumberBound>& bound, double towards) {
  if (!bound || !bound->exclusive || bound->value.is_zero()) return;
  const std::string text =
      fmt::format("{}0.{}e{}", bound->value.negative ? "-" : "", bound->value.digits, bound->value.exponent);
  double value = 0;
  const auto error = std::from_chars(text.data(), text.data() + text.size(), value).ec;
  const double next = std::nextafter(value, towards);
  if (error != std::errc() || !std::isfinite(next) || next == 0) return;
  bound = NumberBound{.value = Decimal(fmt::format("{}", next)), .exclusive = false};
}

}  // namespace

Decimal::Decimal(std::string_view text) {
  size_t i = 0;
  negative = text.starts_with('-');
  if (negative) ++i;
  bool after_point = false;
  for (; i < text.size() && text[i] != 'e' && text[i] != 'E'; ++i) {
    if (text[i] == '.') {
      after_point = true;
      continue;
    }
    if (!after_point && (!digits.empty() || text[i] != '0')) ++exponent;
    if (digits.empty() && text[i] == '0') {
      if (after_point) --exponent;
      continue;
    }
    digits += text[i];
  }
  if (i < text.size()) {
    ++i;
    if (text[i] == '+') ++i;
    core::require(text.size() - i <= 5, "the exponent of {} is not supported", core::printable(text, 40));
    int64_t power = 0;
    std::from_chars(text.data() + i, text.data() + text.size(), power);
    exponent += power;
  }
  while (digits.ends_with('0')) digits.pop_back();
  if (digits.empty()) {
    negative = false;
    exponent = 0;
  }
}

std::optional<int64_t> Decimal::to_integer() const {
  constexpr int64_t kMostDigits = 15;
  if (!is_integer() || (!is_zero() && exponent > kMostDigits)) return std::nullopt;
  int64_t value = 0;
  for (int64_t i = 0; i < (is_zero() ? 0 : exponent); ++i) {
    value = 10 * value + (i < std::ssize(digits) ? digits[static_cast<size_t>(i)] - '0' : 0);
  }
  return negative ? -value : value;
}

int compare(const Decimal& a, const Decimal& b) {
  if (a.is_zero() || b.is_zero() || a.negative != b.negative) {
    const auto sign = [](const Decimal& x) { return x.is_zero() ? 0 : x.negative ? -1 : 1; };
    return sign(a) - sign(b);
  }
  const int greater = a.negative ? -1 : 1;
  if (a.exponent != b.exponent) return a.exponent < b.exponent ? -greater : greater;
  const int order = a.digits.compare(b.digits);
  return order == 0 ? 0 : order < 0 ? -greater : greater;
}

Grammar::Part integer_part(Grammar& grammar, const NumberRange& range) { return part_in(grammar, range, true); }

Grammar::Part number_part(Grammar& grammar, const NumberRange& range) {
  NumberRange rounded = range;
  round_exclusive(rounded.least, std::numeric_limits<double>::infinity());
  round_exclusive(rounded.most, -std::numeric_limits<double>::infinity());
  return part_in(grammar, rounded, false);
}

}  // namespace folio::infer::forms
