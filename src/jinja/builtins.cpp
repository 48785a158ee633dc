#include "jinja/builtins.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <ctime>
#include <optional>

#include "core/error.h"

namespace folio::data::jinja {
namespace {

// ---- numbers ----

Value absolute(Session&, const Value& self, const Arguments&) {
  if (const double* d = std::get_if<double>(&self.data)) return {std::fabs(*d)};
  if (self.is_none()) core::fail("bad operand type for abs(): 'NoneType'");
  const int64_t i = integer(&self, 0);
  if (i == INT64_MIN) core::fail("an integer is too large");
  return {i < 0 ? -i : i};
}

std::optional<double> parse_number(Session& session, const Value& value) {
  if (const bool* b = std::get_if<bool>(&value.data)) return *b ? 1.0 : 0.0;
  if (const int64_t* i = std::get_if<int64_t>(&value.data)) return static_cast<double>(*i);
  if (const double* d = std::get_if<double>(&value.data)) return *d;
  if (value.text() == nullptr) return {};
  session.spend(value.text()->size() / kCharactersPerStep);
  const std::string text = to_utf8(*value.text());
  const size_t begin = std::min(text.find_first_not_of(" \t\r\n"), text.size());
  const size_t end = text.find_last_not_of(" \t\r\n") + 1;
  const char* first = text.data() + begin + (begin < text.size() && text[begin] == '+' ? 1 : 0);
  double number = 0;
  const auto [last, error] = std::from_chars(first, text.data() + std::max(begin, end), number);
  if (error != std::errc() || last != text.data() + end) return {};
  return number;
}

Value to_int(Session& session, const Value& self, const Arguments& arguments) {
  const Value* otherwise = bind(arguments, {"default"})[0];
  if (self.is<int64_t>()) return self;
  if (const auto* undefined = std::get_if<Undefined>(&self.data)) core::fail("'{}' is undefined", undefined->name);
  const auto number = parse_number(session, self);
  if (!number || !(std::fabs(*number) < 0x1p53)) return otherwise == nullptr ? Value{int64_t{0}} : *otherwise;
  return {static_cast<int64_t>(*number)};
}

// ---- sequences ----

Value length(Session&, const Value& self, const Arguments&) {
  if (const Text* text = self.text()) return {static_cast<int64_t>(text->size())};
  if (const List* list = self.list()) return {static_cast<int64_t>(list->items.size())};
  if (const Dict* dict = self.dict()) return {static_cast<int64_t>(dict->items.size())};
  if (!self.is_undefined()) core::fail("object of type '{}' has no len()", type_name(self));
  return {int64_t{0}};
}

template <bool kFirst>
Value end_item(Session& session, const Value& self, const Arguments&) {
  const std::vector<Value> items = items_of(session, self);
  return items.empty() ? Value{} : kFirst ? items.front() : items.back();
}

Value to_list(Session& session, const Value& self, const Arguments&) { return session.list(items_of(session, self)); }

Value reversed(Session& session, const Value& self, const Arguments&) {
  if (const Text* text = self.text()) return session.text(Text(text->rbegin(), text->rend()));
  std::vector<Value> items = items_of(session, self);
  std::reverse(items.begin(), items.end());
  return session.list(std::move(items));
}

// What a path such as "function.name" leads to; integers in it are places in a list.
Value at_path(Session& session, Value value, const Value* path) {
  if (path == nullptr || path->is_none()) return value;
  if (path->text() == nullptr) return item_of(session, value, *path);
  const TextView text = *path->text();
  for (size_t from = 0; from <= text.size();) {
    const size_t to = std::min(find_part(session, text, U".", from), text.size());
    const Text part(text.substr(from, to - from));
    const bool is_number = !part.empty() && part.size() < 10 &&
                           std::all_of(part.begin(), part.end(), [](char32_t c) { return code_of(c) - U'0' < 10; });
    value = item_of(session, value, is_number ? Value{int64_t{std::stoi(to_utf8(part))}} : session.text(part));
    from = to + 1;
  }
  return value;
}

Value sort_key(Session& session, const Value& value, const Value* path, const Value* case_sensitive) {
  Value key = at_path(session, value, path);
  if (key.text() == nullptr || (case_sensitive != nullptr && truthy(*case_sensitive))) return key;
  return session.text(lower_case(*key.text()));
}

std::vector<Value> sorted(Session& session, std::vector<Value> items, const Value* path, const Value* case_sensitive,
                          const Value* reverse) {
  std::vector<std::pair<Value, Value>> keyed;
  for (Value& item : items) keyed.emplace_back(sort_key(session, item, path, case_sensitive), std::move(item));
  const bool falls = reverse != nullptr && truthy(*reverse);
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) {
    return falls ? less(session, b.first, a.first) : less(session, a.first, b.first);
  });
  items.clear();
  for (auto& [key, item] : keyed) items.push_back(std::move(item));
  return items;
}

Value sort(Session& session, const Value& self, const Arguments& arguments) {
  const auto a = bind(arguments, {"reverse", "case_sensitive", "attribute"});
  return session.list(sorted(session, items_of(session, self), a[2], a[1], a[0]));
}

Value pairs_of(Session& session, const Dict& dict) {
  std::vector<Value> pairs;
  for (const auto& [key, value] : dict.items) pairs.push_back(session.list({key, value}, true));
  return session.list(std::move(pairs));
}

Value items(Session& session, const Value& self, const Arguments&) {
  if (self.is_undefined()) return session.list({});
  if (self.dict() == nullptr) core::fail("can only get item pairs from a mapping");
  return pairs_of(session, *self.dict());
}

// The rest of the arguments of a filter that applies another: map("replace", "a", "b").
Arguments behind(const Arguments& arguments, size_t n) {
  return {.values = {arguments.values.begin() + static_cast<ptrdiff_t>(n), arguments.values.end()},
          .names = arguments.names};
}

size_t n_positional(const Arguments& arguments) { return arguments.values.size() - arguments.names.size(); }

Value map(Session& session, const Value& self, const Arguments& arguments) {
  std::vector<Value> values;
  if (truthy(self)) values = items_of(session, self);  // none as well is empty here
  if (n_positional(arguments) == 0) {
    const auto a = bind(arguments, {"attribute", "default"}, 1);
    for (Value& value : values) {
      value = at_path(session, value, a[0]);
      if (value.is_undefined() && a[1] != nullptr) value = *a[1];
    }
  } else {
    const std::string name = to_utf8(text_of(arguments.values[0]));
    const Builtin* filter = find_filter(name);
    if (filter == nullptr) core::fail("no filter named '{}'", core::printable(name));
    const Arguments rest = behind(arguments, 1);
    for (Value& value : values) value = filter->call(session, value, rest);
  }
  return session.list(std::move(values));
}

// select, reject, selectattr, rejectattr: the items that pass a test, or have a true value.
template <bool kHasAttribute, bool kKeeps>
Value select(Session& session, const Value& self, const Arguments& arguments) {
  constexpr size_t kBefore = kHasAttribute ? 1 : 0;
  const size_t n = n_positional(arguments);
  if (n < kBefore) core::fail("the attribute is missing");
  const Builtin* test = nullptr;
  if (n > kBefore) {
    const std::string name = to_utf8(text_of(arguments.values[kBefore]));
    test = find_test(name);
    if (test == nullptr) core::fail("no test named '{}'", core::printable(name));
  }
  const Arguments rest = behind(arguments, std::min(n, kBefore + 1));
  std::vector<Value> kept;
  if (!truthy(self)) return session.list({});
  for (const Value& item : items_of(session, self)) {
    const Value value = kHasAttribute ? at_path(session, item, arguments.values.data()) : item;
    if (truthy(test == nullptr ? value : test->call(session, value, rest)) == kKeeps) kept.push_back(item);
  }
  return session.list(std::move(kept));
}

// ---- others ----

Value or_default(Session& session, const Value& self, const Arguments& arguments) {
  const auto a = bind(arguments, {"default_value", "boolean"});
  const bool replaces = self.is_undefined() || (a[1] != nullptr && truthy(*a[1]) && !truthy(self));
  return !replaces ? self : a[0] == nullptr ? session.text({}) : *a[0];
}

Value to_string(Session& session, const Value& self, const Arguments&) { return session.text(as_text(session, self)); }
Value itself(Session&, const Value& self, const Arguments&) { return self; }

Value to_json(Session& session, const Value& self, const Arguments& arguments) {
  const auto a = bind(arguments, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style{.ascii = a[0] != nullptr && truthy(*a[0]), .sort_keys = a[3] != nullptr && truthy(*a[3])};
  if (a[1] != nullptr && !a[1]->is_none()) {
    style.lines = true;
    style.item_separator = Text(1, U',');
    style.indent = a[1]->text() != nullptr
                       ? *a[1]->text()
                       : Text(static_cast<size_t>(std::clamp<int64_t>(integer(a[1], 0), 0, 1000)), U' ');
  }
  if (a[2] != nullptr && !a[2]->is_none()) {
    const std::vector<Value> separators = items_of(session, *a[2]);
    if (separators.size() != 2) core::fail("tojson: separators are a pair");
    style.item_separator = text_of(separators[0]);
    style.key_separator = text_of(separators[1]);
  }
  Text text;
  write_json(session, text, self, style);
  return session.text(std::move(text));
}

Value keys(Session& session, const Value& self, const Arguments&) { return session.list(items_of(session, self)); }

Value values(Session& session, const Value& self, const Arguments&) {
  std::vector<Value> list;
  for (const auto& [key, value] : self.dict()->items) list.push_back(value);
  return session.list(std::move(list));
}

Value get(Session& session, const Value& self, const Arguments& arguments) {
  const auto a = bind(arguments, {"key", "default"}, 1);
  const Value* found = find_key(session, *self.dict(), *a[0]);
  return found != nullptr ? *found : a[1] != nullptr ? *a[1] : Value{None{}};
}

Value range(Session& session, const Value&, const Arguments& arguments) {
  const auto a = bind(arguments, {"a", "b", "step"}, 1);
  const int64_t begin = a[1] == nullptr ? 0 : integer(a[0], 0);
  const int64_t end = a[1] == nullptr ? integer(a[0], 0) : integer(a[1], 0);
  const int64_t step = integer(a[2], 1);
  if (step == 0) core::fail("range: the step is zero");
  std::vector<Value> numbers;
  for (int64_t i = begin; step > 0 ? i < end : i > end;) {
    if (numbers.size() >= kMaxRange) core::fail("a range has more than {} numbers", kMaxRange);
    numbers.push_back({i});
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  return session.list(std::move(numbers));
}

Value make_dict(Session& session, const Value&, const Arguments& arguments) {
  std::vector<std::pair<Value, Value>> pairs;
  const size_t n = n_positional(arguments);
  if (n > 1 || (n == 1 && arguments.values[0].dict() == nullptr)) core::fail("expected a dict and names with values");
  if (n == 1) pairs = arguments.values[0].dict()->items;
  session.spend(pairs.size());
  for (size_t i = n; i < arguments.values.size(); ++i) {
    pairs.emplace_back(session.text(from_utf8(arguments.names[i - n])), arguments.values[i]);
  }
  return session.dict(std::move(pairs));
}

Value make_namespace(Session& session, const Value& self, const Arguments& arguments) {
  const Value attributes = make_dict(session, self, arguments);
  Namespace& made = session.make_namespace();
  for (const auto& [key, value] : attributes.dict()->items) made.attributes[to_utf8(text_of(key))] = value;
  return {&made};
}

Value raise_exception(Session& session, const Value&, const Arguments& arguments) {
  const Value& message = *bind(arguments, {"message"}, 1)[0];
  core::fail("{}", core::printable(to_utf8(as_text(session, message)), 200));
}

Value strftime_now(Session& session, const Value&, const Arguments& arguments) {
  const std::string format = to_utf8(text_of(*bind(arguments, {"format"}, 1)[0]));
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  std::array<char, 512> text{};
  if (format.size() > 100 || ::localtime_r(&now, &local) == nullptr) core::fail("strftime_now: the format is too long");
  return session.text(from_utf8({text.data(), std::strftime(text.data(), text.size(), format.c_str(), &local)}));
}

constexpr std::array kGlobals{Builtin{"range", range}, Builtin{"dict", make_dict}, Builtin{"namespace", make_namespace},
                              Builtin{"raise_exception", raise_exception}, Builtin{"strftime_now", strftime_now}};

constexpr std::array kDictMethods{Builtin{"items", items}, Builtin{"keys", keys}, Builtin{"values", values},
                                  Builtin{"get", get}};

constexpr std::array kFilters{Builtin{"abs", absolute},
                              Builtin{"count", length},
                              Builtin{"d", or_default},
                              Builtin{"default", or_default},
                              Builtin{"first", end_item<true>},
                              Builtin{"int", to_int},
                              Builtin{"items", items},
                              Builtin{"last", end_item<false>},
                              Builtin{"length", length},
                              Builtin{"list", to_list},
                              Builtin{"map", map},
                              Builtin{"reject", select<false, false>},
                              Builtin{"rejectattr", select<true, false>},
                              Builtin{"reverse", reversed},
                              Builtin{"safe", itself},
                              Builtin{"select", select<false, true>},
                              Builtin{"selectattr", select<true, true>},
                              Builtin{"sort", sort},
                              Builtin{"string", to_string},
                              Builtin{"tojson", to_json}};

const Builtin* find_in(std::span<const Builtin> table, std::string_view name) {
  const auto found = std::find_if(table.begin(), table.end(), [&](const Builtin& b) { return b.name == name; });
  return found == table.end() ? nullptr : &*found;
}

Value method_or_undefined(const Value& object, const Value& name) {
  const Text* text = name.text();
  if (text == nullptr || text->size() > 20) return {};
  const Builtin* method = find_method(object, to_utf8(*text));
  if (method == nullptr) return {};
  return {Function{.builtin = method, .macro = nullptr, .self = std::make_shared<const Value>(object)}};
}

}  // namespace

const Builtin* find_global(std::string_view name) { return find_in(kGlobals, name); }
const Builtin* find_test(std::string_view name) { return find_in(tests(), name); }

const Builtin* find_filter(std::string_view name) {
  const Builtin* found = find_in(kFilters, name);
  return found != nullptr ? found : find_in(text_filters(), name);
}

const Builtin* find_method(const Value& value, std::string_view name) {
  if (value.text() != nullptr) return find_in(text_methods(), name);
  return value.dict() != nullptr ? find_in(kDictMethods, name) : nullptr;
}

Value attribute_of(Session& session, const Value& object, const Value& name) {
  Value method = method_or_undefined(object, name);
  return method.is_undefined() ? item_of(session, object, name) : method;
}

Value item_of(Session& session, const Value& object, const Value& key) {
  if (const auto* undefined = std::get_if<Undefined>(&object.data)) {
    core::fail("'{}' is undefined", core::printable(undefined->name));
  }
  if (const Dict* dict = object.dict()) {
    if (const Value* found = find_key(session, *dict, key)) return *found;
  } else if (const auto* space = std::get_if<Namespace*>(&object.data); space != nullptr && key.text() != nullptr) {
    const auto found = (*space)->attributes.find(to_utf8(*key.text()));
    return found == (*space)->attributes.end() ? Value{} : found->second;
  } else if (key.is<int64_t>() || key.is<bool>()) {
    const Text* text = object.text();
    const List* list = object.list();
    const size_t size = text != nullptr ? text->size() : list != nullptr ? list->items.size() : 0;
    int64_t place = integer(&key, 0);
    if (place < 0) place += static_cast<int64_t>(size);
    if (place < 0 || static_cast<size_t>(place) >= size) return {};
    const auto at = static_cast<size_t>(place);
    return text != nullptr ? session.text(Text(1, (*text)[at])) : list->items[at];
  }
  return method_or_undefined(object, key);
}

std::vector<const Value*> bind(const Arguments& arguments, std::initializer_list<std::string_view> names,
                               size_t n_required) {
  return arguments.bind({names.begin(), names.size()}, n_required);
}

int64_t integer(const Value* argument, int64_t otherwise) {
  if (argument == nullptr || argument->is_none()) return otherwise;
  if (const int64_t* i = std::get_if<int64_t>(&argument->data)) return *i;
  if (const bool* b = std::get_if<bool>(&argument->data)) return *b ? 1 : 0;
  core::fail("expected an integer, not '{}'", type_name(*argument));
}

const Text& text_of(const Value& value) {
  if (value.text() == nullptr) core::fail("expected a string, not '{}'", type_name(value));
  return *value.text();
}

Text as_text(Session& session, const Value& value) {
  Text text;
  write(session, text, value);
  return text;
}

}  // namespace folio::data::jinja
