#include "jinja/value.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <compare>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/utf8.h"

namespace folio::data::jinja {
namespace {

// Compares two numbers, integers exactly and others as floats. Returns nullopt if one is not a number.
std::optional<std::partial_ordering> order_of_numbers(const Value& a, const Value& b) {
  const auto* i = std::get_if<int64_t>(&a.data);
  const auto* j = std::get_if<int64_t>(&b.data);
  if (i != nullptr && j != nullptr) return *i <=> *j;
  const auto x = number(a);
  const auto y = number(b);
  if (!x || !y) return {};
  return *x <=> *y;
}

bool same_code(char32_t a, char32_t b) { return code_of(a) == code_of(b); }

int depth_of(const Value& value) {
  if (const List* list = value.list()) return list->depth;
  if (const Dict* dict = value.dict()) return dict->depth;
  if (const auto* f = std::get_if<Function>(&value.data); f != nullptr && f->self != nullptr) return depth_of(*f->self);
  return 0;
}

int deeper(int depth) {
  if (depth >= kMaxNesting) core::fail("lists and dicts are nested deeper than {}", kMaxNesting);
  return depth + 1;
}

// Returns Python's repr(float): the shortest digits that parse to the same value.
std::string python_float(double value) {
  std::string text = std::isnan(value) ? "nan" : fmt::format("{}", value);
  return text.find_first_of(".einf") == std::string::npos ? text + ".0" : text;
}

bool is_printable(char32_t c) {
  return c >= 0x20 && !(c >= 0x7F && c < 0xA0) && c != 0xAD && !(c >= 0xD800 && c < 0xE000) &&
         (c == 0x20 || !is_space(c)) && !(c >= 0x200B && c <= 0x200F) && !(c >= 0x202A && c <= 0x202E) &&
         !(c >= 0x2060 && c <= 0x206F) && c != 0xFEFF && !(c >= 0xE000 && c < 0xF900);
}

// Appends an escape sequence for `c`, marked with kFromMessage if `c` is.
void append_escape(Session& session, Text& out, char32_t c, const std::string& escape) {
  session.append(out, from_utf8(escape, c & kFromMessage));
}

void write_repr(Session& session, Text& out, TextView text) {
  const bool double_quotes =
      find_part(session, text, U"'") != Text::npos && find_part(session, text, U"\"") == Text::npos;
  const char32_t quote = double_quotes ? U'"' : U'\'';
  session.append(out, {&quote, 1});
  for (const char32_t& c : text) {
    const char32_t code = code_of(c);
    if (code == quote || code == U'\\') {
      append_escape(session, out, c, fmt::format("\\{}", static_cast<char>(code)));
    } else if (code == U'\n' || code == U'\r' || code == U'\t') {
      append_escape(session, out, c, code == U'\n' ? "\\n" : code == U'\r' ? "\\r" : "\\t");
    } else if (is_printable(code)) {
      session.append(out, {&c, 1});
    } else {
      append_escape(session, out, c, python_escape(code));
    }
  }
  session.append(out, {&quote, 1});
}

void write_json_text(Session& session, Text& out, TextView text, bool ascii) {
  session.append(out, U"\"");
  for (const char32_t& c : text) {
    const auto n = static_cast<uint32_t>(code_of(c));
    constexpr std::string_view kPlain = "\"\\\b\f\n\r\t";
    constexpr std::string_view kEscape = "\"\\bfnrt";
    const size_t known = n < 0x80 ? kPlain.find(static_cast<char>(n)) : std::string_view::npos;
    if (known != std::string_view::npos) {
      append_escape(session, out, c, fmt::format("\\{}", kEscape[known]));
    } else if (n < 0x20 || (ascii && n > 0x7E && n < 0x10000)) {
      append_escape(session, out, c, fmt::format("\\u{:04x}", n));
    } else if (ascii && n >= 0x10000) {
      const uint32_t low = n - 0x10000;
      append_escape(session, out, c, fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + (low >> 10U), 0xDC00 + (low & 0x3FFU)));
    } else {
      session.append(out, {&c, 1});
    }
  }
  session.append(out, U"\"");
}

std::string json_scalar(const Value& value) {
  if (value.is_none()) return "null";
  if (const bool* b = std::get_if<bool>(&value.data)) return *b ? "true" : "false";
  if (const int64_t* i = std::get_if<int64_t>(&value.data)) return fmt::format("{}", *i);
  if (const double* d = std::get_if<double>(&value.data)) {
    return std::isnan(*d) ? "NaN" : std::isinf(*d) ? (*d > 0 ? "Infinity" : "-Infinity") : python_float(*d);
  }
  core::fail("{} is not JSON serializable", type_name(value));
}

}  // namespace

std::string python_escape(char32_t code) {
  const auto n = static_cast<uint32_t>(code);
  if (n < 0x100) return fmt::format("\\x{:02x}", n);
  return n < 0x10000 ? fmt::format("\\u{:04x}", n) : fmt::format("\\U{:08x}", n);
}

Text from_utf8(std::string_view utf8, char32_t mark) {
  Text text;
  text.reserve(utf8.size());
  for (size_t at = 0; at < utf8.size();) {
    const core::Utf8Char c = core::decode_utf8(utf8, at);
    text.push_back(mark | (c.valid ? c.code_point : 0xDC00U + static_cast<unsigned char>(utf8[at])));
    at += c.length;
  }
  return text;
}

std::string to_utf8(TextView text) {
  std::string utf8;
  utf8.reserve(text.size());
  for (const char32_t c : text) {
    const uint32_t code = code_of(c);
    if (code >= 0xDC80 && code <= 0xDCFF) {
      utf8.push_back(static_cast<char>(code - 0xDC00));
    } else {
      core::append_utf8(utf8, code);
    }
  }
  return utf8;
}

bool is_space(char32_t c) {
  constexpr std::array<char32_t, 9> kOthers{0x20, 0x85, 0xA0, 0x1680, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000};
  const char32_t code = code_of(c);
  return (code >= 0x09 && code <= 0x0D) || (code >= 0x1C && code <= 0x1F) || (code >= 0x2000 && code <= 0x200A) ||
         std::find(kOthers.begin(), kOthers.end(), code) != kOthers.end();
}

bool same(TextView a, TextView b) { return std::equal(a.begin(), a.end(), b.begin(), b.end(), same_code); }

void Session::append(Text& out, TextView more) {
  spend(1 + more.size() / kCharactersPerStep);
  if (more.size() > kMaxText - std::min(kMaxText, out.size()))
    core::fail("a string has more than {} characters", kMaxText);
  out.append(more);
}

Value Session::text(Text text) {
  spend(1 + text.size() / kCharactersPerStep);
  if (text.size() > kMaxText) core::fail("a string has more than {} characters", kMaxText);
  return {std::make_shared<const Text>(std::move(text))};
}

Value Session::list(std::vector<Value> items, bool is_tuple, bool is_group) {
  spend(1 + items.size());
  int depth = 0;
  for (const Value& item : items) depth = std::max(depth, depth_of(item));
  return {std::make_shared<const List>(
      List{.items = std::move(items), .is_tuple = is_tuple, .depth = deeper(depth), .is_group = is_group})};
}

Value Session::dict(std::vector<std::pair<Value, Value>> items) {
  Dict dict;
  int depth = 0;
  for (auto& [key, value] : items) {
    require_hashable(key);
    depth = std::max({depth, depth_of(key), depth_of(value)});
    if (const Value* known = find_key(*this, dict, key)) {
      const_cast<Value&>(*known) = std::move(value);
    } else {
      dict.items.emplace_back(std::move(key), std::move(value));
    }
  }
  dict.depth = deeper(depth);
  return {std::make_shared<const Dict>(std::move(dict))};
}

size_t find_part(Session& session, TextView text, TextView part, size_t from) {
  constexpr size_t kOftenEnough = 4096;
  size_t n_compared = 0;
  size_t at = from;
  for (; at <= text.size() && part.size() <= text.size() - at; ++at) {
    size_t n = 0;
    while (n < part.size() && same_code(text[at + n], part[n])) ++n;
    n_compared += n + 1;
    if (n == part.size()) break;
    if (n_compared > kOftenEnough) session.spend(std::exchange(n_compared, 0) / kCharactersPerStep);
  }
  session.spend(1 + n_compared / kCharactersPerStep);
  return at <= text.size() && part.size() <= text.size() - at ? at : Text::npos;
}

std::vector<const Value*> Arguments::bind(std::span<const std::string_view> parameters, size_t n_required) const {
  std::vector<const Value*> bound(parameters.size(), nullptr);
  if (n_positional() > parameters.size())
    core::fail("{} arguments, expected at most {}", n_positional(), parameters.size());
  for (size_t i = 0; i < values.size(); ++i) {
    size_t place = i;
    if (i >= n_positional()) {
      const std::string& name = names[i - n_positional()];
      place = static_cast<size_t>(std::find(parameters.begin(), parameters.end(), name) - parameters.begin());
      if (place == parameters.size()) core::fail("unexpected keyword argument '{}'", core::printable(name));
      if (bound[place] != nullptr) core::fail("multiple values for argument '{}'", core::printable(name));
    }
    bound[place] = &values[i];
  }
  for (size_t i = 0; i < n_required; ++i) {
    if (bound[i] == nullptr) core::fail("missing argument '{}'", parameters[i]);
  }
  return bound;
}

std::string_view type_name(const Value& value) {
  constexpr std::array<std::string_view, 11> kNames{
      "Undefined", "NoneType", "bool", "int", "float", "str", "list", "dict", "Namespace", "LoopContext", "function"};
  return value.list() != nullptr && value.list()->is_tuple ? "tuple" : kNames.at(value.data.index());
}

std::optional<double> number(const Value& value) {
  if (const bool* b = std::get_if<bool>(&value.data)) return *b ? 1.0 : 0.0;
  if (const int64_t* i = std::get_if<int64_t>(&value.data)) return static_cast<double>(*i);
  if (const double* d = std::get_if<double>(&value.data)) return *d;
  return {};
}

void require_hashable(const Value& value) {
  const bool is_list = value.list() != nullptr && !value.list()->is_tuple;
  if (is_list || value.dict() != nullptr) core::fail("unhashable type: '{}'", type_name(value));
}

bool truthy(const Value& value) {
  if (const auto n = number(value)) return *n != 0;
  if (const Text* text = value.text()) return !text->empty();
  if (const List* list = value.list()) return !list->items.empty();
  if (const Dict* dict = value.dict()) return !dict->items.empty();
  return !value.is_none() && !value.is_undefined();
}

bool equal(Session& session, const Value& a, const Value& b) {
  session.spend(1);
  if (const auto order = order_of_numbers(a, b)) return *order == 0;
  if (a.data.index() != b.data.index()) return false;
  if (const Text* text = a.text()) {
    session.spend(text->size() / kCharactersPerStep);
    return same(*text, *b.text());
  }
  if (const List* list = a.list()) {
    return list->is_tuple == b.list()->is_tuple &&
           std::equal(list->items.begin(), list->items.end(), b.list()->items.begin(), b.list()->items.end(),
                      [&](const Value& p, const Value& q) { return equal(session, p, q); });
  }
  if (const Dict* dict = a.dict()) {
    return dict->items.size() == b.dict()->items.size() &&
           std::all_of(dict->items.begin(), dict->items.end(), [&](const auto& item) {
             const Value* other = find_key(session, *b.dict(), item.first);
             return other != nullptr && equal(session, item.second, *other);
           });
  }
  if (const auto* space = std::get_if<Namespace*>(&a.data)) return *space == std::get<Namespace*>(b.data);
  if (const auto* loop = std::get_if<Loop*>(&a.data)) return *loop == std::get<Loop*>(b.data);
  if (const auto* f = std::get_if<Function>(&a.data)) {
    const auto& g = std::get<Function>(b.data);
    return f->builtin == g.builtin && f->macro == g.macro && f->self == g.self;
  }
  return true;  // both values are none, or both are undefined
}

bool less(Session& session, const Value& a, const Value& b) {
  session.spend(1);
  if (const auto order = order_of_numbers(a, b)) return *order < 0;
  if (a.text() != nullptr && b.text() != nullptr) {
    session.spend(std::min(a.text()->size(), b.text()->size()) / kCharactersPerStep);
    return std::lexicographical_compare(a.text()->begin(), a.text()->end(), b.text()->begin(), b.text()->end(),
                                        [](char32_t p, char32_t q) { return code_of(p) < code_of(q); });
  }
  if (a.list() != nullptr && b.list() != nullptr && a.list()->is_tuple == b.list()->is_tuple) {
    const auto& p = a.list()->items;
    const auto& q = b.list()->items;
    for (size_t i = 0; i < std::min(p.size(), q.size()); ++i) {
      if (!equal(session, p[i], q[i])) return less(session, p[i], q[i]);
    }
    return p.size() < q.size();
  }
  core::fail("'<' not supported between instances of '{}' and '{}'", type_name(a), type_name(b));
}

std::vector<Value> items_of(Session& session, const Value& value) {
  std::vector<Value> items;
  if (const List* list = value.list()) {
    session.spend(list->items.size());
    items = list->items;
  } else if (const Dict* dict = value.dict()) {
    session.spend(dict->items.size());
    for (const auto& [key, item] : dict->items) items.push_back(key);
  } else if (const Text* text = value.text()) {
    for (const char32_t c : *text) items.push_back(session.text(Text(1, c)));
  } else if (!value.is_undefined()) {
    core::fail("'{}' object is not iterable", type_name(value));
  }
  return items;
}

const Value* find_key(Session& session, const Dict& dict, const Value& key) {
  for (const auto& item : dict.items) {
    if (equal(session, item.first, key)) return &item.second;
  }
  return nullptr;
}

void write(Session& session, Text& out, const Value& value, bool repr) {
  if (const Text* text = value.text()) {
    repr ? write_repr(session, out, *text) : session.append(out, *text);
  } else if (const List* list = value.list()) {
    session.append(out, list->is_tuple ? U"(" : U"[");
    for (size_t i = 0; i < list->items.size(); ++i) {
      if (i > 0) session.append(out, U", ");
      write(session, out, list->items[i], true);
    }
    session.append(out, !list->is_tuple ? U"]" : list->items.size() == 1 ? U",)" : U")");
  } else if (const Dict* dict = value.dict()) {
    session.append(out, U"{");
    for (size_t i = 0; i < dict->items.size(); ++i) {
      if (i > 0) session.append(out, U", ");
      write(session, out, dict->items[i].first, true);
      session.append(out, U": ");
      write(session, out, dict->items[i].second, true);
    }
    session.append(out, U"}");
  } else if (const bool* b = std::get_if<bool>(&value.data)) {
    session.append(out, *b ? U"True" : U"False");
  } else if (const int64_t* i = std::get_if<int64_t>(&value.data)) {
    session.append(out, from_utf8(fmt::format("{}", *i)));
  } else if (const double* d = std::get_if<double>(&value.data)) {
    session.append(out, from_utf8(python_float(*d)));
  } else if (value.is_none()) {
    session.append(out, U"None");
  } else if (value.is_undefined()) {
    session.append(out, repr ? U"Undefined" : U"");
  } else {
    session.append(out, from_utf8(fmt::format("<{}>", type_name(value))));
  }
}

Value from_json(Session& session, const nlohmann::ordered_json& json, char32_t mark) {
  if (json.is_string()) return session.text(from_utf8(json.get_ref<const std::string&>(), mark));
  if (json.is_boolean()) return {json.get<bool>()};
  const bool is_huge = json.is_number_unsigned() && json.get<uint64_t>() > uint64_t{INT64_MAX};
  if (json.is_number_integer() && !is_huge) return {json.get<int64_t>()};
  if (json.is_number()) return {json.get<double>()};
  if (json.is_array()) {
    std::vector<Value> items;
    for (const auto& item : json) items.push_back(from_json(session, item, mark));
    return session.list(std::move(items));
  }
  if (!json.is_object()) return {None{}};
  std::vector<std::pair<Value, Value>> items;
  for (const auto& [key, item] : json.items()) {
    items.emplace_back(session.text(from_utf8(key, mark)), from_json(session, item, mark));
  }
  return session.dict(std::move(items));
}

void write_json(Session& session, Text& out, const Value& value, const JsonStyle& style, size_t level) {
  const List* list = value.list();
  const Dict* dict = value.dict();
  if (list == nullptr && dict == nullptr) {
    if (const Text* text = value.text()) return write_json_text(session, out, *text, style.ascii);
    return session.append(out, from_utf8(json_scalar(value)));
  }
  const size_t n = list != nullptr ? list->items.size() : dict->items.size();
  std::vector<const std::pair<Value, Value>*> members;
  if (dict != nullptr) {
    for (const auto& item : dict->items) members.push_back(&item);
    const auto by_key = [&](const auto* a, const auto* b) { return less(session, a->first, b->first); };
    if (style.sort_keys) std::stable_sort(members.begin(), members.end(), by_key);
  }
  const auto new_line = [&](size_t depth) {
    if (!style.lines || n == 0) return;
    session.append(out, U"\n");
    for (size_t i = 0; i < depth; ++i) session.append(out, style.indent);
  };
  session.append(out, list != nullptr ? U"[" : U"{");
  for (size_t i = 0; i < n; ++i) {
    if (i > 0) session.append(out, style.item_separator);
    new_line(level + 1);
    if (dict != nullptr) {
      const Value& key = members[i]->first;
      write_json_text(session, out, key.text() != nullptr ? *key.text() : from_utf8(json_scalar(key)), style.ascii);
      session.append(out, style.key_separator);
    }
    write_json(session, out, list != nullptr ? list->items[i] : members[i]->second, style, level + 1);
  }
  new_line(level);
  session.append(out, list != nullptr ? U"]" : U"}");
}

}  // namespace folio::data::jinja
