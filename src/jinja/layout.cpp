// The filters format, indent, pprint, truncate, urlencode, wordcount and wordwrap.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "jinja/builtins.h"

namespace folio::data::jinja {
namespace {

using namespace std::string_view_literals;

Value indent(Session& session, const Value& self, const Arguments& arguments) {
  const auto a = bind(arguments, {"width", "first", "blank"});
  const Text by = a[0] != nullptr && a[0]->text() != nullptr
                      ? *a[0]->text()
                      : Text(static_cast<size_t>(std::clamp<int64_t>(integer(a[0], 4), 0, 100'000)), U' ');
  const Text& text = text_of(self);
  std::vector<TextView> lines = lines_of(text);
  const bool ends_line = text.empty() || lines.back().data() + lines.back().size() != text.data() + text.size();
  if (ends_line) lines.emplace_back();
  if (text.empty()) lines = {TextView()};
  Text result;
  if (is_true(a[1])) session.append(result, by);
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) session.append(result, U"\n");
    if (i > 0 && (is_true(a[2]) || !lines[i].empty())) session.append(result, by);
    session.append(result, lines[i]);
  }
  return session.text(std::move(result));
}

Value truncate(Session& session, const Value& self, const Arguments& arguments) {
  const auto a = bind(arguments, {"length", "killwords", "end", "leeway"});
  const Text end = a[2] == nullptr ? Text(U"...") : text_of(*a[2]);
  const int64_t length = integer(a[0], 255);
  const int64_t leeway = integer(a[3], 5);
  if (length < static_cast<int64_t>(end.size()))
    core::fail("truncate: expected length >= {}, got {}", end.size(), length);
  if (leeway < 0) core::fail("truncate: expected leeway >= 0, got {}", leeway);
  const TextView text = text_of(self);
  if (static_cast<int64_t>(text.size()) - leeway <= length) return self;
  TextView kept = text.substr(0, static_cast<size_t>(length) - end.size());
  if (!is_true(a[1])) {
    const auto blank = std::find_if(kept.rbegin(), kept.rend(), [](char32_t c) { return code_of(c) == U' '; });
    if (blank != kept.rend()) kept = kept.substr(0, static_cast<size_t>(kept.rend() - blank) - 1);
  }
  return session.text(Text(kept) + end);
}

Value wordcount(Session& session, const Value& self, const Arguments& arguments) {
  static_cast<void>(bind(arguments, {}));
  const Text text = as_text(session, self);
  int64_t n = 0;
  for (size_t i = 0; i < text.size(); ++i) n += is_word(text[i]) && (i == 0 || !is_word(text[i - 1])) ? 1 : 0;
  return {n};
}

// The functions below implement Python's textwrap.wrap with expand_tabs and replace_whitespace turned off.

bool is_blank(char32_t c) { return U"\t\n\x0b\x0c\r "sv.find(code_of(c)) != TextView::npos; }
bool is_letter_of_words(char32_t c) { return is_word(c) && !is_decimal(c); }  // textwrap's [^\d\W]
bool is_word_punctuation(char32_t c) { return is_word(c) || U"!\"'&.,?"sv.find(code_of(c)) != TextView::npos; }
bool is_hyphen(char32_t c) { return code_of(c) == U'-'; }

// Returns the end of the chunk that begins at `from`, as split by textwrap's wordsep_re: whitespace, a dash of two or
// more hyphens, or a word up to and including a hyphen in it. If `at_hyphens` is false, splits only at whitespace.
size_t chunk_end(TextView text, size_t from, bool at_hyphens) {
  size_t at = from;
  if (is_blank(text[at])) {
    while (at < text.size() && is_blank(text[at])) ++at;
    return at;
  }
  const auto dash_end = [&](size_t i) {  // the end of two or more hyphens at i if a word follows them, otherwise i
    size_t end = i;
    while (end < text.size() && is_hyphen(text[end])) ++end;
    return end >= i + 2 && end < text.size() && is_word(text[end]) ? end : i;
  };
  if (at_hyphens && from > 0 && is_word_punctuation(text[from - 1]) && dash_end(from) > from) return dash_end(from);
  for (at = from + 1; at < text.size(); ++at) {
    if (is_blank(text[at])) return at;
    if (!at_hyphens) continue;
    if (is_word_punctuation(text[at - 1]) && dash_end(at) > at) return at;
    if (!is_hyphen(text[at])) continue;
    const auto letter = [&](size_t i) { return i < text.size() && is_letter_of_words(text[i]); };
    const bool before = (at >= 2 && letter(at - 1) && letter(at - 2)) ||
                        (at >= 3 && is_word_punctuation(text[at - 1]) && is_hyphen(text[at - 2]) && letter(at - 3));
    const bool after =
        letter(at + 1) && (letter(at + 2) || (at + 3 < text.size() && is_hyphen(text[at + 2]) && letter(at + 3)));
    if (before && after) return at + 1;
  }
  return at;
}

struct Wrapping {
  size_t width;
  bool break_words;
  bool at_hyphens;
};

std::vector<Text> wrapped(TextView text, const Wrapping& wrapping) {
  std::vector<TextView> chunks;
  for (size_t from = 0; from < text.size();) {
    const size_t end = chunk_end(text, from, wrapping.at_hyphens);
    chunks.push_back(text.substr(from, end - from));
    from = end;
  }
  std::ranges::reverse(chunks);
  const auto is_empty = [](TextView chunk) { return std::ranges::all_of(chunk, is_space); };
  std::vector<Text> lines;
  while (!chunks.empty()) {
    std::vector<TextView> line;
    size_t size = 0;
    if (!lines.empty() && is_empty(chunks.back())) chunks.pop_back();
    while (!chunks.empty() && size + chunks.back().size() <= wrapping.width) {
      size += chunks.back().size();
      line.push_back(chunks.back());
      chunks.pop_back();
    }
    if (!chunks.empty() && chunks.back().size() > wrapping.width) {
      if (wrapping.break_words) {
        const TextView word = chunks.back();
        size_t n = wrapping.width - size;
        if (wrapping.at_hyphens && n > 0) {  // breaks after the last hyphen, unless only hyphens precede it
          size_t hyphen = n;
          while (hyphen > 0 && !is_hyphen(word[hyphen - 1])) --hyphen;
          const TextView before = word.substr(0, hyphen == 0 ? 0 : hyphen - 1);
          if (hyphen > 1 && !std::ranges::all_of(before, is_hyphen)) n = hyphen;
        }
        line.push_back(word.substr(0, n));
        chunks.back().remove_prefix(n);
      } else if (line.empty()) {
        line.push_back(chunks.back());
        chunks.pop_back();
      }
    }
    if (!line.empty() && is_empty(line.back())) line.pop_back();
    if (line.empty()) continue;
    Text joined_line;
    for (const TextView chunk : line) joined_line += chunk;
    lines.push_back(std::move(joined_line));
  }
  return lines;
}

Value wordwrap(Session& session, const Value& self, const Arguments& arguments) {
  const auto a = bind(arguments, {"width", "break_long_words", "wrapstring", "break_on_hyphens"});
  const int64_t width = integer(a[0], 79);
  if (width <= 0 && !text_of(self).empty()) core::fail("invalid width {} (must be > 0)", width);
  const Wrapping wrapping{
      .width = static_cast<size_t>(width), .break_words = is_true(a[1], true), .at_hyphens = is_true(a[3], true)};
  const Text between = a[2] == nullptr || a[2]->is_none() ? Text(U"\n") : text_of(*a[2]);
  const TextView text = text_of(self);
  session.spend(1 + text.size());
  Text result;
  bool is_first = true;
  for (const TextView line : lines_of(text)) {
    if (!std::exchange(is_first, false)) session.append(result, between);
    const std::vector<Text> parts = wrapped(line, wrapping);
    for (size_t i = 0; i < parts.size(); ++i) {
      if (i > 0) session.append(result, between);
      session.append(result, parts[i]);
    }
  }
  return session.text(std::move(result));
}

void append_quoted(Session& session, Text& out, TextView text, bool in_query) {
  for (const char32_t& c : text) {
    const char32_t code = code_of(c);
    if (code == U' ' && in_query) {
      session.append(out, U"+");
    } else if (code < 0x80 && (is_word(c) || U"-.~"sv.find(code) != TextView::npos || (code == U'/' && !in_query))) {
      session.append(out, {&c, 1});
    } else {
      for (const char byte : to_utf8({&c, 1})) {
        session.append(out, from_utf8(fmt::format("%{:02X}", static_cast<unsigned char>(byte)), c & kFromMessage));
      }
    }
  }
}

Value urlencode(Session& session, const Value& self, const Arguments& arguments) {
  static_cast<void>(bind(arguments, {}));
  Text out;
  const bool is_plain = self.list() == nullptr && self.dict() == nullptr && !self.is_undefined();
  if (is_plain) {
    append_quoted(session, out, as_text(session, self), false);
    return session.text(std::move(out));
  }
  const std::vector<std::pair<Value, Value>> pairs = pairs_of(session, self);
  for (size_t i = 0; i < pairs.size(); ++i) {
    if (i > 0) session.append(out, U"&");
    append_quoted(session, out, as_text(session, pairs[i].first), true);
    session.append(out, U"=");
    append_quoted(session, out, as_text(session, pairs[i].second), true);
  }
  return session.text(std::move(out));
}

Value format(Session& session, const Value& self, const Arguments& arguments) {
  const bool has_names = !arguments.names.empty();
  if (has_names && arguments.n_positional() > 0)
    core::fail("format accepts either positional or keyword arguments, not both");
  const Value values =
      has_names ? session.dict(keyword_pairs(session, arguments)) : session.list(arguments.values, true);
  return session.text(formatted(session, as_text(session, self), values));
}

// Returns a copy of the value in which the keys of all dicts are sorted, as pprint does.
Value with_sorted_keys(Session& session, const Value& value) {
  if (const List* list = value.list()) {
    std::vector<Value> items;
    for (const Value& item : list->items) items.push_back(with_sorted_keys(session, item));
    return session.list(std::move(items), list->is_tuple);
  }
  if (value.dict() == nullptr) return value;
  Dict sorted = *value.dict();
  session.spend(1 + sorted.items.size());
  for (auto& [key, item] : sorted.items) {
    key = with_sorted_keys(session, key);
    item = with_sorted_keys(session, item);
  }
  std::ranges::stable_sort(sorted.items, [&](const auto& p, const auto& q) {
    const Value &a = p.first, &b = q.first;
    const bool comparable = a.data.index() == b.data.index() || (number(a) && number(b));
    return comparable && !a.is_none() ? less(session, a, b) : type_name(a) < type_name(b);
  });
  return {std::make_shared<const Dict>(std::move(sorted))};
}

// Implements Python's pprint.pformat with a width of 80, for a value whose keys are sorted. `column` is the position at
// which a value begins; `after` is the number of characters that follow on the value's last line.
class PrettyPrinter {
 public:
  explicit PrettyPrinter(Session& session) : session_(session) {}

  void print(Text& out, const Value& value, size_t column, size_t after) {
    const Text line = in_line(value);
    const List* list = value.list();
    const Dict* dict = value.dict();
    if (line.size() + column + after <= kWidth || (list == nullptr && dict == nullptr)) {
      return line.size() + column + after > kWidth && value.text() != nullptr
                 ? print_text(out, *value.text(), column, after)
                 : session_.append(out, line);
    }
    const bool is_tuple = list != nullptr && list->is_tuple;
    session_.append(out, dict != nullptr ? U"{" : is_tuple ? U"(" : U"[");
    const size_t n = list != nullptr ? list->items.size() : dict->items.size();
    const bool is_single = is_tuple && n == 1;
    for (size_t i = 0; i < n; ++i) {
      if (i > 0) new_line(out, column + 1);
      const size_t after_item = i + 1 < n ? 1 : after + 1 + (is_single ? 1 : 0);
      if (list != nullptr) {
        print(out, list->items[i], column + 1, after_item);
      } else {
        const Text key = in_line(dict->items[i].first);
        session_.append(out, key);
        session_.append(out, U": ");
        print(out, dict->items[i].second, column + 3 + key.size(), after_item);
      }
      if (i + 1 < n || is_single) session_.append(out, U",");
    }
    session_.append(out, dict != nullptr ? U"}" : is_tuple ? U")" : U"]");
  }

 private:
  static constexpr size_t kWidth = 80;

  void new_line(Text& out, size_t column) {
    session_.append(out, U"\n");
    session_.append(out, Text(column, U' '));
  }

  Text in_line(const Value& value) {
    Text out;
    write(session_, out, value, true);
    return out;
  }

  // Writes a long string as several adjacent literals with one literal per line.
  void print_text(Text& out, const Text& text, size_t column, size_t after) {
    const bool is_outermost = out.empty();
    const size_t inner = column + (is_outermost ? 1 : 0);
    const size_t room = kWidth - std::min(kWidth, inner);
    const size_t room_at_end = room - std::min(room, after + (is_outermost ? 1 : 0));
    std::vector<Text> parts;
    const auto repr = [&](TextView t) { return in_line(session_.text(Text(t))); };
    const std::vector<TextView> lines = lines_of(text, true);
    for (size_t i = 0; i < lines.size(); ++i) {
      const bool is_last_line = i + 1 == lines.size();
      if (repr(lines[i]).size() <= (is_last_line ? room_at_end : room)) {
        parts.push_back(repr(lines[i]));
        continue;
      }
      Text current;  // words with the whitespace after them
      for (size_t from = 0, to = 0; from < lines[i].size(); from = to) {
        while (to < lines[i].size() && !is_space(lines[i][to])) ++to;
        while (to < lines[i].size() && is_space(lines[i][to])) ++to;
        const Text longer = current + Text(lines[i].substr(from, to - from));
        const bool is_last = is_last_line && to == lines[i].size();
        if (repr(longer).size() > (is_last ? room_at_end : room)) {
          if (!current.empty()) parts.push_back(repr(current));
          current = Text(lines[i].substr(from, to - from));
        } else {
          current = longer;
        }
      }
      if (!current.empty()) parts.push_back(repr(current));
    }
    const bool brackets = is_outermost && parts.size() > 1;
    if (brackets) session_.append(out, U"(");
    for (size_t i = 0; i < parts.size(); ++i) {
      if (i > 0) new_line(out, inner);
      session_.append(out, parts[i]);
    }
    if (brackets) session_.append(out, U")");
  }

  Session& session_;
};

Value pprint(Session& session, const Value& self, const Arguments& arguments) {
  static_cast<void>(bind(arguments, {}));
  Text text;
  PrettyPrinter(session).print(text, with_sorted_keys(session, self), 0, 0);
  return session.text(std::move(text));
}

constexpr std::array kLayoutFilters{Builtin{"format", format},       Builtin{"indent", indent},
                                    Builtin{"pprint", pprint},       Builtin{"truncate", truncate},
                                    Builtin{"urlencode", urlencode}, Builtin{"wordcount", wordcount},
                                    Builtin{"wordwrap", wordwrap}};

}  // namespace

std::span<const Builtin> layout_filters() { return kLayoutFilters; }

}  // namespace folio::data::jinja
