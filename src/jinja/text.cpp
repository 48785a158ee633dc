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

Value split(Session& session, const Value& self, const Arguments& arguments) {
  const auto a = bind(arguments, {"sep", "maxsplit"});
  const TextView text = text_of(self);
  int64_t most = integer(a[1], -1);
  std::vector<Text> parts;
  session.spend(1 + text.size() / kCharactersPerStep);
  if (a[0] == nullptr || a[0]->is_none()) {
    parts = words(text, most);
  } else {
    const TextView separator = text_of(*a[0]);
    if (separator.empty()) core::fail("empty separator");
    size_t from = 0;
    for (; most != 0; --most) {
      const size_t at = find_part(session, text, separator, from);
      if (at == Text::npos) break;
      parts.emplace_back(text.substr(from, at - from));
      from = at + separator.size();
    }
    parts.emplace_back(text.substr(from));
  }
  std::vector<Value> values;
  for (Text& part : parts) values.push_back(session.text(std::move(part)));
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
Value join(Session& session, const Value& self, const Arguments& arguments) {
  const auto a = bind(arguments, {"d"});
  const Text separator = a[0] == nullptr ? Text() : as_text(session, *a[0]);
  Text result;
  const std::vector<Value> items = items_of(session, self);
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) session.append(result, separator);
    session.append(result, as_text(session, items[i]));
  }
  return session.text(std::move(result));
}

Value trim_filter(Session& session, const Value& self, const Arguments& arguments) {
  return stripped(session, as_text(session, self), bind(arguments, {"chars"})[0], Ends::Both);
}

constexpr std::array kMethods{Builtin{"strip", strip<Ends::Both>},
                              Builtin{"lstrip", strip<Ends::Left>},
                              Builtin{"rstrip", strip<Ends::Right>},
                              Builtin{"replace", replace},
                              Builtin{"split", split},
                              Builtin{"startswith", has_end<false>},
                              Builtin{"endswith", has_end<true>},
                              Builtin{"capitalize", change<capitalized>}};

constexpr std::array kFilters{Builtin{"trim", trim_filter},
                              Builtin{"replace", replace},
                              Builtin{"upper", change<upper_case>},
                              Builtin{"lower", change<lower_case>},
                              Builtin{"capitalize", change<capitalized>},
                              Builtin{"join", join}};

}  // namespace

Text lower_case(TextView text) {
  Text result(text);
  std::transform(result.begin(), result.end(), result.begin(), lower);
  return result;
}

std::span<const Builtin> text_methods() { return kMethods; }
std::span<const Builtin> text_filters() { return kFilters; }

}  // namespace folio::data::jinja
