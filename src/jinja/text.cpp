// Methods and filters of texts. Each returns characters as they came in, so who said them stays known.
#include <algorithm>
#include <array>
#include <clocale>
#include <cwctype>

#include "core/error.h"
#include "jinja/builtins.h"

namespace folio::data::jinja {
namespace {

// Unicode's simple mappings. Python has also those to several characters, such as that of "ß".
char32_t mapped(char32_t c, wint_t (*map)(wint_t, locale_t)) {
  static const locale_t kUnicode = ::newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
  const char32_t code = code_of(c);
  if (kUnicode == nullptr || (code >= 0xD800 && code < 0xE000)) return c;
  return (c & kSaid) | static_cast<char32_t>(map(static_cast<wint_t>(code), kUnicode));
}
char32_t upper(char32_t c) { return mapped(c, ::towupper_l); }
char32_t lower(char32_t c) { return mapped(c, ::towlower_l); }
bool is_cased(char32_t c) { return upper(c) != c || lower(c) != c; }

Text upper_case(TextView text) {
  Text result(text);
  std::transform(result.begin(), result.end(), result.begin(), upper);
  return result;
}

Text capitalized(TextView text) {
  Text result = lower_case(text);
  if (!result.empty()) result[0] = upper(text[0]);
  return result;
}

// str.title: a letter behind one that has no case is large. The filter: a letter behind a space or an opening bracket.
Text titled(TextView text, bool as_filter) {
  Text result(text);
  bool begins = true;
  for (char32_t& c : result) {
    const char32_t code = code_of(c);
    const bool separates = as_filter ? is_space(c) || TextView(U"-({[<").find(code) != TextView::npos : !is_cased(c);
    c = begins ? upper(c) : lower(c);
    begins = separates;
  }
  return result;
}

enum class Ends { Both, Left, Right };

Value stripped(Session& session, TextView text, const Value* characters, Ends ends) {
  const Text* set = characters == nullptr || characters->is_none() ? nullptr : &text_of(*characters);
  const auto goes = [&](char32_t c) {
    return set == nullptr ? is_space(c) : set->find_first_of(Text{code_of(c), c | kSaid}) != Text::npos;
  };
  size_t n_steps = 1;
  while (ends != Ends::Right && !text.empty() && goes(text.front())) text.remove_prefix(1), ++n_steps;
  while (ends != Ends::Left && !text.empty() && goes(text.back())) text.remove_suffix(1), ++n_steps;
  session.spend(n_steps * (set == nullptr ? 1 : 1 + set->size()) / kCharactersPerStep);
  return session.text(Text(text));
}

template <Ends kEnds>
Value strip(Session& session, const Value& self, const Arguments& arguments) {
  return stripped(session, text_of(self), bind(arguments, {"chars"})[0], kEnds);
}

Value replaced(Session& session, TextView text, TextView old, TextView with, int64_t count) {
  Text result;
  size_t from = 0;
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

Value replace(Session& session, const Value& self, const Arguments& arguments) {
  const auto a = bind(arguments, {"old", "new", "count"}, 2);
  return replaced(session, as_text(session, self), as_text(session, *a[0]), as_text(session, *a[1]), integer(a[2], -1));
}

// str.split without a separator: what stands between stretches of whitespace.
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

// str.rsplit is split in a mirror.
template <bool kFromRight>
Value split(Session& session, const Value& self, const Arguments& arguments) {
  const auto a = bind(arguments, {"sep", "maxsplit"});
  const auto mirrored = [](TextView text) { return kFromRight ? Text(text.rbegin(), text.rend()) : Text(text); };
  const Text text = mirrored(text_of(self));
  int64_t most = integer(a[1], -1);
  std::vector<Text> parts;
  session.spend(1 + text.size() / kCharactersPerStep);
  if (a[0] == nullptr || a[0]->is_none()) {
    parts = words(text, most);
  } else {
    const Text separator = mirrored(text_of(*a[0]));
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
  std::vector<Value> values;
  for (const Text& part : parts) values.push_back(session.text(mirrored(part)));
  if (kFromRight) std::reverse(values.begin(), values.end());
  return session.list(std::move(values));
}

std::vector<TextView> lines_of(TextView text) {
  std::vector<TextView> lines;
  for (size_t from = 0; from < text.size();) {
    size_t at = from;
    const auto ends = [](char32_t c) {
      const char32_t code = code_of(c);
      return (code >= 0x0A && code <= 0x0D) || (code >= 0x1C && code <= 0x1E) || code == 0x85 || code == 0x2028 ||
             code == 0x2029;
    };
    while (at < text.size() && !ends(text[at])) ++at;
    lines.push_back(text.substr(from, at - from));
    const bool two = at + 1 < text.size() && code_of(text[at]) == U'\r' && code_of(text[at + 1]) == U'\n';
    from = at + (two ? 2 : 1);
  }
  return lines;
}

Value splitlines(Session& session, const Value& self, const Arguments& arguments) {
  static_cast<void>(bind(arguments, {}));
  std::vector<Value> parts;
  for (const TextView line : lines_of(text_of(self))) parts.push_back(session.text(Text(line)));
  return session.list(std::move(parts));
}

bool at_end(TextView text, TextView part, bool is_end) {
  if (part.size() > text.size()) return false;
  return same(is_end ? text.substr(text.size() - part.size()) : text.substr(0, part.size()), part);
}

template <bool kIsEnd>
Value has_end(Session& session, const Value& self, const Arguments& arguments) {
  const Value& part = *bind(arguments, {"part"}, 1)[0];
  if (part.list() == nullptr) return {at_end(text_of(self), text_of(part), kIsEnd)};
  const std::vector<Value> parts = items_of(session, part);
  return {std::any_of(parts.begin(), parts.end(),
                      [&](const Value& p) { return at_end(text_of(self), text_of(p), kIsEnd); })};
}

template <bool kIsEnd>
Value without_end(Session& session, const Value& self, const Arguments& arguments) {
  const TextView text = text_of(self);
  const Text& part = text_of(*bind(arguments, {"part"}, 1)[0]);
  if (!at_end(text, part, kIsEnd)) return self;
  return session.text(Text(kIsEnd ? text.substr(0, text.size() - part.size()) : text.substr(part.size())));
}

Value find_in(Session& session, const Value& self, const Arguments& arguments) {
  const Text& part = text_of(*bind(arguments, {"sub"}, 1)[0]);
  const size_t at = find_part(session, text_of(self), part);
  return {at == Text::npos ? int64_t{-1} : static_cast<int64_t>(at)};
}

Value count(Session& session, const Value& self, const Arguments& arguments) {
  const Text& text = text_of(self);
  const Text& part = text_of(*bind(arguments, {"sub"}, 1)[0]);
  if (part.empty()) return {static_cast<int64_t>(text.size() + 1)};
  int64_t n = 0;
  for (size_t at = find_part(session, text, part); at != Text::npos;
       at = find_part(session, text, part, at + part.size()))
    ++n;
  return {n};
}

template <Text (*kChange)(TextView)>
Value change(Session& session, const Value& self, const Arguments& arguments) {
  static_cast<void>(bind(arguments, {}));
  return session.text(kChange(as_text(session, self)));
}
Text title_of(TextView text) { return titled(text, false); }
Text title_filter(TextView text) { return titled(text, true); }

// Whether there are characters, and each is of that kind.
template <bool (*kIs)(char32_t)>
Value all_are(Session&, const Value& self, const Arguments& arguments) {
  static_cast<void>(bind(arguments, {}));
  const Text& text = text_of(self);
  return {!text.empty() && std::all_of(text.begin(), text.end(), kIs)};
}
bool is_digit(char32_t c) { return code_of(c) >= U'0' && code_of(c) <= U'9'; }

Value join_items(Session& session, TextView separator, const std::vector<Value>& items, bool converts) {
  Text result;
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) session.append(result, separator);
    session.append(result, converts ? as_text(session, items[i]) : text_of(items[i]));
  }
  return session.text(std::move(result));
}

Value join(Session& session, const Value& self, const Arguments& arguments) {
  return join_items(session, text_of(self), items_of(session, *bind(arguments, {"iterable"}, 1)[0]), false);
}

Value join_filter(Session& session, const Value& self, const Arguments& arguments) {
  const auto a = bind(arguments, {"d", "attribute"});
  std::vector<Value> items = items_of(session, self);
  if (a[1] != nullptr && !a[1]->is_none()) {
    for (Value& item : items) item = item_of(session, item, *a[1]);
  }
  return join_items(session, a[0] == nullptr ? Text() : as_text(session, *a[0]), items, true);
}

Value trim_filter(Session& session, const Value& self, const Arguments& arguments) {
  return stripped(session, as_text(session, self), bind(arguments, {"chars"})[0], Ends::Both);
}

Value indent(Session& session, const Value& self, const Arguments& arguments) {
  const auto a = bind(arguments, {"width", "first", "blank"});
  Text indention(4, U' ');
  if (a[0] != nullptr) {
    indention = a[0]->text() != nullptr
                    ? *a[0]->text()
                    : Text(static_cast<size_t>(std::clamp<int64_t>(integer(a[0], 4), 0, kMaxText)), U' ');
  }
  const bool first = a[1] != nullptr && truthy(*a[1]);
  const bool blank = a[2] != nullptr && truthy(*a[2]);
  Text text = text_of(self);
  session.append(text, U"\n");
  Text result;
  const std::vector<TextView> lines = lines_of(text);
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) session.append(result, U"\n");
    if (i == 0 ? first : blank || !lines[i].empty()) session.append(result, indention);
    session.append(result, lines[i]);
  }
  return session.text(std::move(result));
}

constexpr std::array kMethods{Builtin{"strip", strip<Ends::Both>},
                              Builtin{"lstrip", strip<Ends::Left>},
                              Builtin{"rstrip", strip<Ends::Right>},
                              Builtin{"replace", replace},
                              Builtin{"split", split<false>},
                              Builtin{"rsplit", split<true>},
                              Builtin{"splitlines", splitlines},
                              Builtin{"startswith", has_end<false>},
                              Builtin{"endswith", has_end<true>},
                              Builtin{"find", find_in},
                              Builtin{"count", count},
                              Builtin{"join", join},
                              Builtin{"upper", change<upper_case>},
                              Builtin{"lower", change<lower_case>},
                              Builtin{"title", change<title_of>},
                              Builtin{"capitalize", change<capitalized>},
                              Builtin{"isdigit", all_are<is_digit>},
                              Builtin{"isspace", all_are<is_space>},
                              Builtin{"removeprefix", without_end<false>},
                              Builtin{"removesuffix", without_end<true>}};

constexpr std::array kFilters{Builtin{"trim", trim_filter},           Builtin{"replace", replace},
                              Builtin{"upper", change<upper_case>},   Builtin{"lower", change<lower_case>},
                              Builtin{"title", change<title_filter>}, Builtin{"capitalize", change<capitalized>},
                              Builtin{"join", join_filter},           Builtin{"indent", indent}};

}  // namespace

Text lower_case(TextView text) {
  Text result(text);
  std::transform(result.begin(), result.end(), result.begin(), lower);
  return result;
}

std::span<const Builtin> text_methods() { return kMethods; }
std::span<const Builtin> text_filters() { return kFilters; }

}  // namespace folio::data::jinja
