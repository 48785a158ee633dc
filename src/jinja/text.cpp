// Methods and filters of strings. Characters stay marked if they come from a message (kFromMessage).
#include <algorithm>
#include <array>
#include <clocale>
#include <cwctype>

#include "core/error.h"
#include "jinja/builtins.h"

namespace folio::data::jinja {
namespace {

using namespace std::string_view_literals;

// Returns a Unicode locale for towupper_l() and towlower_l(). (Python, unlike these functions, maps "ß" to "SS".)
locale_t unicode_locale() {
  static const locale_t kUnicode = [] {
    const locale_t made = ::newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
    return made != nullptr ? made : ::newlocale(LC_CTYPE_MASK, "C", nullptr);
  }();
  return kUnicode;
}
char32_t mapped(char32_t c, wint_t (*map)(wint_t, locale_t)) {
  const char32_t code = code_of(c);
  if (code >= 0xD800 && code < 0xE000) return c;
  return (c & kFromMessage) | static_cast<char32_t>(map(static_cast<wint_t>(code), unicode_locale()));
}
char32_t upper(char32_t c) { return mapped(c, ::towupper_l); }
char32_t lower(char32_t c) { return mapped(c, ::towlower_l); }
bool is_upper_char(char32_t c) { return lower(c) != c; }
bool is_lower_char(char32_t c) { return upper(c) != c; }
bool is_uncased(char32_t c) { return !is_upper_char(c) && !is_lower_char(c); }

Text with_each(TextView text, char32_t (*map)(char32_t)) {
  Text result(text);
  std::ranges::transform(result, result.begin(), map);
  return result;
}

Text swapped_case(TextView text) {
  return with_each(text, [](char32_t c) { return is_upper_char(c) ? lower(c) : upper(c); });
}

bool separates_words(char32_t c) { return is_space(c) || U"-({[<"sv.find(code_of(c)) != TextView::npos; }

// Converts to title case. kSeparates(c) returns true if c separates words.
template <bool (*kSeparates)(char32_t)>
Text titled(TextView text) {
  Text result(text);
  bool in_word = false;
  for (char32_t& c : result) {
    const bool separates = kSeparates(c);
    if (!separates) c = in_word ? lower(c) : upper(c);
    in_word = !separates;
  }
  return result;
}

Text capitalized(TextView text) {
  Text result = lower_case(text);
  if (!result.empty()) result[0] = upper(text[0]);
  return result;
}

enum class Ends { Both, Left, Right };

// Implements str.strip, lstrip and rstrip, and the filter trim, which also accepts values of other types.
template <Ends kEnds>
Value strip(Session& session, const Value& self, const Arguments& arguments) {
  const Value* characters = bind(arguments, {"chars"})[0];
  const Text* set = characters == nullptr || characters->is_none() ? nullptr : &text_of(*characters);
  const Text converted = self.text() == nullptr ? as_text(session, self) : Text();
  TextView text = self.text() == nullptr ? converted : *self.text();
  const auto is_stripped = [&](char32_t c) {
    return set == nullptr ? is_space(c) : set->find_first_of(Text{code_of(c), c | kFromMessage}) != Text::npos;
  };
  size_t n_steps = 1;
  while (kEnds != Ends::Right && !text.empty() && is_stripped(text.front())) text.remove_prefix(1), ++n_steps;
  while (kEnds != Ends::Left && !text.empty() && is_stripped(text.back())) text.remove_suffix(1), ++n_steps;
  session.spend(n_steps * (set == nullptr ? 1 : 1 + set->size()) / kCharactersPerStep);
  return session.text(Text(text));
}

Value replace(Session& session, const Value& self, const Arguments& arguments) {
  const auto a = bind(arguments, {"old", "new", "count"}, 2);
  const Text whole = as_text(session, self);
  const Text old = as_text(session, *a[0]);
  const Text with = as_text(session, *a[1]);
  const TextView text = whole;
  Text result;
  size_t from = 0;
  int64_t count = integer(a[2], -1);
  for (; count != 0; --count) {
    const size_t at = find_part(session, text, old, from);
    if (at == Text::npos || (old.empty() && at >= text.size())) break;
    session.append(result, text.substr(from, at - from));
    session.append(result, with);
    if (old.empty()) session.append(result, text.substr(at, 1));
    from = at + std::max<size_t>(1, old.size());
  }
  session.append(result, text.substr(std::min(from, text.size())));
  if (old.empty() && count != 0) session.append(result, with);
  return session.text(std::move(result));
}

// Splits at runs of whitespace, like Python's str.split without a separator.
std::vector<Text> words(TextView text, int64_t most) {
  std::vector<Text> parts;
  while (true) {
    while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
    if (text.empty()) return parts;
    size_t n = most-- == 0 ? text.size() : 0;
    while (n < text.size() && !is_space(text[n])) ++n;
    parts.emplace_back(text.substr(0, n));
    text.remove_prefix(n);
  }
}

Text backwards(TextView text) { return {text.rbegin(), text.rend()}; }

// Implements str.split, and str.rsplit by splitting the reversed string.
template <bool kFromRight>
Value split(Session& session, const Value& self, const Arguments& arguments) {
  const auto a = bind(arguments, {"sep", "maxsplit"});
  const auto read = [](const Text& text) { return kFromRight ? backwards(text) : text; };
  const Text text = read(text_of(self));
  int64_t most = integer(a[1], -1);
  std::vector<Text> parts;
  session.spend(1 + text.size() / kCharactersPerStep);
  if (a[0] == nullptr || a[0]->is_none()) {
    parts = words(text, most);
  } else {
    const Text separator = read(text_of(*a[0]));
    if (separator.empty()) core::fail("empty separator");
    size_t from = 0;
    for (; most != 0; --most) {
      const size_t at = find_part(session, text, separator, from);
      if (at == Text::npos) break;
      parts.push_back(text.substr(from, at - from));
      from = at + separator.size();
    }
    parts.push_back(text.substr(from));
  }
  if (kFromRight) std::ranges::reverse(parts);
  std::vector<Value> values;
  for (const Text& part : parts) values.push_back(session.text(read(part)));
  return session.list(std::move(values));
}

bool at_end(Session& session, TextView text, TextView part, bool is_end) {
  session.spend(1 + std::min(part.size(), text.size()) / kCharactersPerStep);
  if (part.size() > text.size()) return false;
  return same(is_end ? text.substr(text.size() - part.size()) : text.substr(0, part.size()), part);
}

template <bool kIsEnd>
Value has_end(Session& session, const Value& self, const Arguments& arguments) {
  const Value& part = *bind(arguments, {"part"}, 1)[0];
  if (part.list() == nullptr) return {at_end(session, text_of(self), text_of(part), kIsEnd)};
  const std::vector<Value> parts = items_of(session, part);
  return {std::any_of(parts.begin(), parts.end(),
                      [&](const Value& p) { return at_end(session, text_of(self), text_of(p), kIsEnd); })};
}

template <Text (*kChange)(TextView)>
Value change(Session& session, const Value& self, const Arguments& arguments) {
  static_cast<void>(bind(arguments, {}));
  return session.text(kChange(as_text(session, self)));
}

Value joined(Session& session, const Value& self, const Arguments& arguments) {
  Text result;
  const std::vector<Value> items = items_of(session, *bind(arguments, {"iterable"}, 1)[0]);
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) session.append(result, text_of(self));
    session.append(result, text_of(items[i]));
  }
  return session.text(std::move(result));
}

// The part of a string that find() and count() search, and the index of its first character, or -1 if begin > end.
struct Within {
  TextView text;
  int64_t begin;
};
Within within(const Value& self, const Value* begin, const Value* end) {
  const TextView text = text_of(self);
  const auto size = static_cast<int64_t>(text.size());
  const auto bound = [&](int64_t at) { return at < 0 ? std::max<int64_t>(0, at < -size ? 0 : at + size) : at; };
  const int64_t from = bound(integer(begin, 0));
  const int64_t to = std::min(size, bound(integer(end, size)));
  if (from > to) return {.text = {}, .begin = -1};
  return {.text = text.substr(static_cast<size_t>(from), static_cast<size_t>(to - from)), .begin = from};
}

size_t find_last_part(Session& session, TextView text, TextView part) {
  session.spend(1 + text.size() / kCharactersPerStep);
  const size_t at = find_part(session, backwards(text), backwards(part));
  return at == Text::npos ? Text::npos : text.size() - part.size() - at;
}

template <bool kLast, bool kRequired>
Value find(Session& session, const Value& self, const Arguments& arguments) {
  const auto a = bind(arguments, {"sub", "start", "end"}, 1);
  const auto [text, begin] = within(self, a[1], a[2]);
  const TextView part = text_of(*a[0]);
  const size_t at = begin < 0 ? Text::npos
                    : kLast   ? find_last_part(session, text, part)
                              : find_part(session, text, part);
  if (at != Text::npos) return {begin + static_cast<int64_t>(at)};
  if (kRequired) core::fail("substring not found");
  return {int64_t{-1}};
}

Value count_parts(Session& session, const Value& self, const Arguments& arguments) {
  const auto a = bind(arguments, {"sub", "start", "end"}, 1);
  const auto [text, begin] = within(self, a[1], a[2]);
  const TextView part = text_of(*a[0]);
  if (begin < 0) return {int64_t{0}};
  if (part.empty()) return {static_cast<int64_t>(text.size()) + 1};
  int64_t n = 0;
  for (size_t at = 0; (at = find_part(session, text, part, at)) != Text::npos; at += part.size()) ++n;
  return {n};
}

template <bool kLast>
Value partition(Session& session, const Value& self, const Arguments& arguments) {
  const TextView text = text_of(self);
  const TextView part = text_of(*bind(arguments, {"sep"}, 1)[0]);
  if (part.empty()) core::fail("empty separator");
  const size_t at = kLast ? find_last_part(session, text, part) : find_part(session, text, part);
  const auto value = [&](TextView t) { return session.text(Text(t)); };
  if (at != Text::npos) {
    return session.list(
        {value(text.substr(0, at)), value(text.substr(at, part.size())), value(text.substr(at + part.size()))}, true);
  }
  return kLast ? session.list({value({}), value({}), value(text)}, true)
               : session.list({value(text), value({}), value({})}, true);
}

Value splitlines(Session& session, const Value& self, const Arguments& arguments) {
  const auto a = bind(arguments, {"keepends"});
  const TextView text = text_of(self);
  session.spend(1 + text.size() / kCharactersPerStep);
  std::vector<Value> lines;
  for (const TextView line : lines_of(text, is_true(a[0]))) lines.push_back(session.text(Text(line)));
  return session.list(std::move(lines));
}

template <bool kIsEnd>
Value remove_end(Session& session, const Value& self, const Arguments& arguments) {
  TextView text = text_of(self);
  const TextView part = text_of(*bind(arguments, {"part"}, 1)[0]);
  if (at_end(session, text, part, kIsEnd)) {
    kIsEnd ? text.remove_suffix(part.size()) : text.remove_prefix(part.size());
  }
  return session.text(Text(text));
}

template <bool (*kIs)(char32_t)>
Value all_are(Session& session, const Value& self, const Arguments& arguments) {
  static_cast<void>(bind(arguments, {}));
  const TextView text = text_of(self);
  session.spend(1 + text.size() / kCharactersPerStep);
  return {!text.empty() && std::ranges::all_of(text, kIs)};
}

bool is_letter_or_digit(char32_t c) { return is_word(c) && code_of(c) != U'_'; }
bool is_letter(char32_t c) { return is_letter_or_digit(c) && !is_decimal(c); }

template <bool (*kIs)(TextView)>
Value has_case(Session&, const Value& self, const Arguments& arguments) {
  static_cast<void>(bind(arguments, {}));
  return {kIs(text_of(self))};
}

// Pads `text` to `width` characters, for str.ljust, rjust, center and zfill, and the filter center. `place` is the
// position of the text.
enum class Place { Left, Right, Center };
Value padded(Session& session, TextView text, int64_t width, const Value* fill, Place place) {
  const Text filled = fill == nullptr ? Text(1, U' ') : text_of(*fill);
  if (filled.size() != 1) core::fail("the fill character must be exactly one character long");
  const auto size = static_cast<int64_t>(text.size());
  if (width <= size) return session.text(Text(text));
  if (width > static_cast<int64_t>(kMaxText)) core::fail("a string has more than {} characters", kMaxText);
  const int64_t n = width - size;
  const int64_t left = place == Place::Left ? 0 : place == Place::Right ? n : n / 2 + (n & width & 1);
  Text result(static_cast<size_t>(left), filled[0]);
  result += text;
  result.append(static_cast<size_t>(n - left), filled[0]);
  return session.text(std::move(result));
}
template <Place kPlace>
Value pad(Session& session, const Value& self, const Arguments& arguments) {
  const auto a = bind(arguments, {"width", "fillchar"}, 1);
  return padded(session, text_of(self), integer(a[0], 0), a[1], kPlace);
}
Value zfill(Session& session, const Value& self, const Arguments& arguments) {
  TextView text = text_of(self);
  const bool has_sign = !text.empty() && (code_of(text[0]) == U'-' || code_of(text[0]) == U'+');
  const int64_t width = std::max<int64_t>(integer(bind(arguments, {"width"}, 1)[0], 0), 0) - (has_sign ? 1 : 0);
  const Value zero = session.text(U"0");
  const Value number = padded(session, text.substr(has_sign ? 1 : 0), width, &zero, Place::Right);
  return session.text(Text(text.substr(0, has_sign ? 1 : 0)) + *number.text());
}
Value center_filter(Session& session, const Value& self, const Arguments& arguments) {
  const auto a = bind(arguments, {"width"});
  return padded(session, as_text(session, self), a[0] == nullptr ? 80 : integer(a[0], 0), nullptr, Place::Center);
}

constexpr std::array kTextMethods{Builtin{"strip", strip<Ends::Both>},
                                  Builtin{"lstrip", strip<Ends::Left>},
                                  Builtin{"rstrip", strip<Ends::Right>},
                                  Builtin{"replace", replace},
                                  Builtin{"split", split<false>},
                                  Builtin{"rsplit", split<true>},
                                  Builtin{"splitlines", splitlines},
                                  Builtin{"partition", partition<false>},
                                  Builtin{"rpartition", partition<true>},
                                  Builtin{"join", joined},
                                  Builtin{"find", find<false, false>},
                                  Builtin{"rfind", find<true, false>},
                                  Builtin{"index", find<false, true>},
                                  Builtin{"rindex", find<true, true>},
                                  Builtin{"count", count_parts},
                                  Builtin{"startswith", has_end<false>},
                                  Builtin{"endswith", has_end<true>},
                                  Builtin{"removeprefix", remove_end<false>},
                                  Builtin{"removesuffix", remove_end<true>},
                                  Builtin{"capitalize", change<capitalized>},
                                  Builtin{"upper", change<upper_case>},
                                  Builtin{"lower", change<lower_case>},
                                  Builtin{"title", change<titled<is_uncased>>},
                                  Builtin{"swapcase", change<swapped_case>},
                                  Builtin{"isupper", has_case<is_upper>},
                                  Builtin{"islower", has_case<is_lower>},
                                  Builtin{"isspace", all_are<is_space>},
                                  Builtin{"isalpha", all_are<is_letter>},
                                  Builtin{"isalnum", all_are<is_letter_or_digit>},
                                  Builtin{"isdigit", all_are<is_decimal>},
                                  Builtin{"isdecimal", all_are<is_decimal>},
                                  Builtin{"isnumeric", all_are<is_decimal>},
                                  Builtin{"ljust", pad<Place::Left>},
                                  Builtin{"rjust", pad<Place::Right>},
                                  Builtin{"center", pad<Place::Center>},
                                  Builtin{"zfill", zfill}};

constexpr std::array kTextFilters{Builtin{"trim", strip<Ends::Both>},
                                  Builtin{"replace", replace},
                                  Builtin{"upper", change<upper_case>},
                                  Builtin{"lower", change<lower_case>},
                                  Builtin{"title", change<titled<separates_words>>},
                                  Builtin{"capitalize", change<capitalized>},
                                  Builtin{"center", center_filter}};

}  // namespace

Text lower_case(TextView text) { return with_each(text, lower); }
Text upper_case(TextView text) { return with_each(text, upper); }

bool is_lower(TextView text) {
  return std::ranges::any_of(text, is_lower_char) && std::ranges::none_of(text, is_upper_char);
}
bool is_upper(TextView text) {
  return std::ranges::any_of(text, is_upper_char) && std::ranges::none_of(text, is_lower_char);
}

bool is_word(char32_t c) {
  const char32_t code = code_of(c);
  if (code == U'_') return true;
  if (code >= 0xD800 && code < 0xE000) return false;
  return ::iswalnum_l(static_cast<wint_t>(code), unicode_locale()) != 0;
}

bool is_decimal(char32_t c) { return code_of(c) >= U'0' && code_of(c) <= U'9'; }

std::vector<TextView> lines_of(TextView text, bool with_ends) {
  constexpr TextView kEnds = U"\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029";
  std::vector<TextView> lines;
  while (!text.empty()) {
    size_t n = 0;
    while (n < text.size() && kEnds.find(code_of(text[n])) == TextView::npos) ++n;
    const bool is_pair = n + 1 < text.size() && code_of(text[n]) == U'\r' && code_of(text[n + 1]) == U'\n';
    const size_t end = std::min(text.size(), n + (is_pair ? 2 : 1));
    lines.push_back(text.substr(0, with_ends ? end : n));
    text.remove_prefix(end);
  }
  return lines;
}

std::span<const Builtin> text_methods() { return kTextMethods; }
std::span<const Builtin> text_filters() { return kTextFilters; }

}  // namespace folio::data::jinja
