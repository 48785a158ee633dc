#include "infer/forms/json_number.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <compare>
#include <limits>
#include <map>
#include <vector>

#include "core/error.h"

namespace folio::infer::forms {
namespace {

constexpr size_t kMostNumberStates = 5'000;
constexpr int kMostExponent = 307;      // maximum |exponent| of d.ddd, so that no double overflows or underflows
constexpr int kMostOtherExponent = 99;  // maximum |exponent| of a number of any other form
constexpr int kMostExponentDigits = 3;
constexpr int kAnyExponent = -1;
constexpr std::string_view kBytes = "0123456789-+.eE";  // all bytes that numbers may contain

/// Result of comparing a number's digits with those of a bound.
enum class Side : int8_t { Less = -1, Equal = 0, Greater = 1 };

Side side_of(int digit, int other) { return digit < other ? Side::Less : digit > other ? Side::Greater : Side::Equal; }

// A bound on the absolute value of a number.
struct SizeBound {
  Decimal value;
  bool is_least;
  bool exclusive;

  [[nodiscard]] bool holds(Side side) const {
    if (side == Side::Equal) return !exclusive;
    return is_least == (side == Side::Greater);
  }
  /// Returns digit i of `value.digits`, or 0 if there is no digit i.
  [[nodiscard]] int digit(int64_t i) const {
    return i >= 0 && i < static_cast<int64_t>(value.digits.size()) ? value.digits[static_cast<size_t>(i)] - '0' : 0;
  }
  [[nodiscard]] int64_t n_whole() const { return std::max<int64_t>(value.exponent, 1); }  // digits before "."
  [[nodiscard]] int whole_digit(int64_t i) const { return value.exponent < 1 ? 0 : digit(i); }
  [[nodiscard]] int fraction_digit(int64_t i) const { return digit(i + value.exponent); }
  [[nodiscard]] int64_t n_fraction() const {  // digits after ".", without trailing zeros
    return std::max<int64_t>(static_cast<int64_t>(value.digits.size()) - value.exponent, 0);
  }
};

// Comparison of the digits read so far with one bound.
struct Seen {
  int32_t n = 0;                // number of digits of the current part, capped where further digits don't matter
  Side plain = Side::Equal;     // digits compared as a number without an exponent
  Side mantissa = Side::Equal;  // digits compared as d.ddd
  int32_t n_mantissa = 0;
  auto operator<=>(const Seen&) const = default;
};

enum class At : uint8_t { Begin, Sign, Zero, Whole, Point, Fraction, E, ExponentSign, Exponent };

struct NumberState {
  At at = At::Begin;
  bool negative = false;
  bool is_zero = true;             // true while all digits are 0
  bool may_have_exponent = false;  // true for d or d.ddd with d > 0, whose exponent is checked against bounds
  bool exponent_negative = false;
  uint32_t rest = 0;  // value of the integer's digits so far, modulo multiple_of
  // The allowed range of exponents, the exponent so far (kAnyExponent: any digits may follow), and the digits left.
  int32_t first_exponent = 0, last_exponent = 0;
  int32_t exponent = 0;
  int32_t n_exponent_left = 0;
  std::array<Seen, 2> seen{};
  auto operator<=>(const NumberState&) const = default;
};

class NumberAutomaton {
 public:
  NumberAutomaton(const NumberRange& range, bool is_integer) : range_(range), is_integer_(is_integer) {
    for (const bool negative : {false, true}) {
      auto& bounds = bounds_[negative ? 1 : 0];
      possible_[negative ? 1 : 0] = true;
      for (const bool is_least : {true, false}) {
        const auto& bound = is_least ? range.least : range.most;
        if (!bound) continue;
        // A bound of the opposite sign holds either for all numbers of this sign or for none.
        Decimal size = bound->value;
        size.negative = false;
        if (bound->value.is_zero() || bound->value.negative == negative) {
          bounds.push_back({.value = size, .is_least = is_least != negative, .exclusive = bound->exclusive});
        } else if (is_least != negative) {
          // The bound always holds: x >= -5 for x >= 0, or x <= 5 for x <= 0.
        } else {
          possible_[negative ? 1 : 0] = false;
        }
      }
    }
  }

  [[nodiscard]] Grammar::Part build(Grammar& grammar) {
    (void)number_of({});
    for (size_t i = 0; i < order_.size(); ++i) {
      grammar.budget().spend(kBytes.size());
      const NumberState state = order_[i];
      for (const char c : kBytes) {
        const auto byte = static_cast<uint8_t>(c);
        NumberState next = state;
        if (step(next, byte)) {
          const int32_t to = number_of(next);
          transitions_.push_back({.from = static_cast<int32_t>(i), .low = byte, .high = byte, .to = to});
        }
      }
    }
    return grammar.automaton(order_.size(), transitions_, accepting_);
  }

 private:
  [[nodiscard]] const std::vector<SizeBound>& bounds(const NumberState& state) const {
    return bounds_[state.negative ? 1 : 0];
  }

  int32_t number_of(const NumberState& state) {
    const auto [found, is_new] = numbers_.try_emplace(state, static_cast<int32_t>(order_.size()));
    if (is_new) {
      core::require(order_.size() < kMostNumberStates, "the number range needs more than {} states", kMostNumberStates);
      order_.push_back(state);
      if (accepts(state)) accepting_.push_back(found->second);
    }
    return found->second;
  }

  [[nodiscard]] bool accepts(const NumberState& state) const {
    const bool plain = state.at == At::Zero || state.at == At::Whole || state.at == At::Fraction;
    if (!plain && state.at != At::Exponent) return false;
    if (is_integer_ && (state.rest != 0 || (state.negative && state.is_zero))) return false;
    if (!plain) return state.exponent == kAnyExponent || has_exponent(state, state.exponent);
    for (size_t b = 0; b < bounds(state).size(); ++b) {
      const SizeBound& bound = bounds(state)[b];
      if (!bound.holds(plain_side(state, bound, state.seen[b]))) return false;
    }
    return true;
  }

  [[nodiscard]] static bool has_exponent(const NumberState& state, int digits) {
    const int exponent = state.exponent_negative ? -digits : digits;
    return state.first_exponent <= exponent && exponent <= state.last_exponent;
  }

  [[nodiscard]] static Side plain_side(const NumberState& state, const SizeBound& bound, const Seen& seen) {
    if (state.at != At::Fraction) {
      if (seen.n < bound.n_whole()) return Side::Less;
      if (seen.n > bound.n_whole()) return Side::Greater;
    }
    if (seen.plain != Side::Equal) return seen.plain;
    const int64_t n_read = state.at == At::Fraction ? seen.n : 0;
    return n_read < bound.n_fraction() ? Side::Less : Side::Equal;  // a bound with more digits is larger
  }

  void read_digit(NumberState& state, int digit, bool is_whole) const {
    for (size_t b = 0; b < bounds(state).size(); ++b) {
      const SizeBound& bound = bounds(state)[b];
      Seen& seen = state.seen[b];
      if (is_whole) {
        if (seen.plain == Side::Equal) seen.plain = side_of(digit, bound.whole_digit(seen.n));
        seen.n = static_cast<int32_t>(std::min<int64_t>(seen.n + 1, bound.n_whole() + 1));
        if (seen.n > bound.n_whole()) seen.plain = Side::Greater;
      } else if (seen.plain == Side::Equal) {
        seen.plain = side_of(digit, bound.fraction_digit(seen.n));
        seen.n = static_cast<int32_t>(std::min<int64_t>(seen.n + 1, bound.n_fraction()));
        if (seen.plain != Side::Equal) seen.n = 0;
      }
      if (state.may_have_exponent && seen.mantissa == Side::Equal) {
        seen.mantissa = side_of(digit, bound.digit(seen.n_mantissa));
        seen.n_mantissa = static_cast<int32_t>(
            std::min<int64_t>(seen.n_mantissa + 1, static_cast<int64_t>(bound.value.digits.size())));
        if (seen.mantissa != Side::Equal) seen.n_mantissa = 0;
      }
    }
    if (digit != 0) state.is_zero = false;
    if (is_integer_)
      state.rest =
          static_cast<uint32_t>((state.rest * uint64_t{10} + static_cast<uint64_t>(digit)) % range_.multiple_of);
  }

  // Ends the digits before the decimal point. Afterwards only the result of comparing them with each bound matters.
  void end_whole(NumberState& state) const {
    for (size_t b = 0; b < bounds(state).size(); ++b) {
      Seen& seen = state.seen[b];
      const int64_t n = bounds(state)[b].n_whole();
      if (seen.n != n) seen.plain = seen.n < n ? Side::Less : Side::Greater;
      seen.n = 0;
    }
  }

  void forget_mantissa(NumberState& state) const {
    state.may_have_exponent = false;
    for (Seen& seen : state.seen) {
      seen.mantissa = Side::Equal;
      seen.n_mantissa = 0;
    }
  }

  // Updates `state` with the next byte of the number. Returns false if `byte` can't come next.
  [[nodiscard]] bool step(NumberState& state, uint8_t byte) const {
    const bool is_digit = byte >= '0' && byte <= '9';
    const int digit = byte - '0';
    const bool is_e = byte == 'e' || byte == 'E';
    switch (state.at) {
      case At::Begin:
        if (byte == '-') {
          state.negative = true;
          state.at = At::Sign;
          return possible_[1];
        }
        if (!possible_[0]) return false;
        [[fallthrough]];
      case At::Sign:
        if (!is_digit) return false;
        state.may_have_exponent = !is_integer_ && digit != 0;
        read_digit(state, digit, true);
        state.at = digit == 0 ? At::Zero : At::Whole;
        return true;
      case At::Whole:
        if (is_digit) {
          forget_mantissa(state);
          read_digit(state, digit, true);
          return true;
        }
        [[fallthrough]];
      case At::Zero:
        if (is_integer_) return false;
        if (byte == '.') {
          end_whole(state);
          state.at = At::Point;
          return true;
        }
        return is_e && begin_exponent(state);
      case At::Point:
      case At::Fraction:
        if (is_digit) {
          read_digit(state, digit, false);
          state.at = At::Fraction;
          return true;
        }
        return state.at == At::Fraction && is_e && begin_exponent(state);
      case At::E:
        if (byte == '-' || byte == '+') {
          state.exponent_negative = byte == '-';
          state.at = At::ExponentSign;
          return true;
        }
        [[fallthrough]];
      case At::ExponentSign:
      case At::Exponent:
        return is_digit && read_exponent(state, digit);
    }
    return false;
  }

  [[nodiscard]] bool begin_exponent(NumberState& state) const {
    if (!state.may_have_exponent && !bounds(state).empty()) return false;
    int64_t last = state.may_have_exponent ? kMostExponent : kMostOtherExponent;
    int64_t first = -last;
    for (size_t b = 0; b < bounds(state).size(); ++b) {
      const SizeBound& bound = bounds(state)[b];
      if (bound.value.is_zero()) {
        if (!bound.is_least) return false;
        continue;
      }
      const int64_t same = bound.value.exponent - 1;
      Side side = state.seen[b].mantissa;
      if (side == Side::Equal && state.seen[b].n_mantissa < static_cast<int64_t>(bound.value.digits.size())) {
        side = Side::Less;
      }
      const int64_t off = bound.holds(side) ? 0 : 1;
      if (bound.is_least) {
        first = std::max(first, same + off);
      } else {
        last = std::min(last, same - off);
      }
    }
    if (first > last) return false;
    NumberState next{.at = At::E, .negative = state.negative};
    next.first_exponent = static_cast<int32_t>(first);
    next.last_exponent = static_cast<int32_t>(last);
    next.n_exponent_left = kMostExponentDigits;
    state = next;
    return true;
  }

  // Reads an exponent digit. Returns false if no allowed exponent is left; sets kAnyExponent if any digits may follow.
  [[nodiscard]] static bool read_exponent(NumberState& state, int digit) {
    if (state.n_exponent_left == 0) return false;
    --state.n_exponent_left;
    state.at = At::Exponent;
    if (state.exponent == kAnyExponent) return true;
    state.exponent = state.exponent * 10 + digit;
    // span() returns the range of exponents that begin with the digits so far and have `more` further digits. some()
    // and all() return true if some or all of these exponents are allowed.
    const auto span = [&](int more) {
      int power = 1;
      for (int i = 0; i < more; ++i) power *= 10;
      const int low = state.exponent * power;
      const int high = low + power - 1;
      return state.exponent_negative ? std::pair(-high, -low) : std::pair(low, high);
    };
    const auto some = [&](int more) {
      const auto [low, high] = span(more);
      return std::max(low, state.first_exponent) <= std::min(high, state.last_exponent);
    };
    const auto all = [&](int more) {
      const auto [low, high] = span(more);
      return state.first_exponent <= low && high <= state.last_exponent;
    };
    while (state.n_exponent_left > 0 && !some(state.n_exponent_left)) --state.n_exponent_left;
    bool may_come = false;
    bool is_free = true;
    for (int more = 0; more <= state.n_exponent_left; ++more) {
      may_come = may_come || some(more);
      is_free = is_free && all(more);
    }
    if (is_free) state.exponent = kAnyExponent;
    return may_come;
  }

  NumberRange range_;
  bool is_integer_;
  std::array<std::vector<SizeBound>, 2> bounds_;  // bounds of nonnegative and of negative numbers
  std::array<bool, 2> possible_{};
  std::map<NumberState, int32_t> numbers_;
  std::vector<NumberState> order_;
  std::vector<Grammar::Transition> transitions_;
  std::vector<int32_t> accepting_;
};

// Replaces an exclusive bound with an inclusive one: the next double in the direction of `towards`.
void round_exclusive(std::optional<NumberBound>& bound, double towards) {
  if (!bound || !bound->exclusive || bound->value.is_zero()) return;
  const std::string text =
      fmt::format("{}0.{}e{}", bound->value.negative ? "-" : "", bound->value.digits, bound->value.exponent);
  double value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  const double next = std::nextafter(value, towards);
  if (!std::isfinite(next) || next == 0) return;
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

Grammar::Part integer_part(Grammar& grammar, const NumberRange& range) {
  return NumberAutomaton(range, true).build(grammar);
}

Grammar::Part number_part(Grammar& grammar, const NumberRange& range) {
  NumberRange rounded = range;
  round_exclusive(rounded.least, std::numeric_limits<double>::infinity());
  round_exclusive(rounded.most, -std::numeric_limits<double>::infinity());
  return NumberAutomaton(rounded, false).build(grammar);
}

}  // namespace folio::infer::forms
