#include "jinja/builtins.h"

#include <algorithm>
#include <array>
#include <ctime>

#include "core/error.h"
#include "jinja/scope.h"

namespace folio::data::jinja {
namespace {

Value items(Session& session, const Value& self, const Arguments&) {
  if (self.is_undefined()) return session.list({});
  if (self.dict() == nullptr) core::fail("can only get item pairs from a mapping");
  std::vector<Value> pairs;
  for (const auto& [key, value] : self.dict()->items) pairs.push_back(session.list({key, value}, true));
  return session.list(std::move(pairs));
}

Value or_default(Session& session, const Value& self, const Arguments& arguments) {
  const auto a = bind(arguments, {"default_value", "boolean"});
  const bool replaces = self.is_undefined() || (is_true(a[1]) && !truthy(self));
  return !replaces ? self : a[0] == nullptr ? session.text({}) : *a[0];
}

Value to_string(Session& session, const Value& self, const Arguments&) { return session.text(as_text(session, self)); }
Value unchanged(Session&, const Value& self, const Arguments&) { return self; }

Value to_json(Session& session, const Value& self, const Arguments& arguments) {
  const auto a = bind(arguments, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style{.ascii = is_true(a[0]), .sort_keys = is_true(a[3])};
  if (a[1] != nullptr && !a[1]->is_none()) {
    style.lines = true;
    style.item_separator = Text(1, U',');
    style.indent = a[1]->text() != nullptr
                       ? *a[1]->text()
                       : Text(static_cast<size_t>(std::clamp<int64_t>(integer(a[1], 0), 0, 1000)), U' ');
  }
  if (a[2] != nullptr && !a[2]->is_none()) {
    const std::vector<Value> separators = items_of(session, *a[2]);
    if (separators.size() != 2) core::fail("tojson: separators must be two strings");
    style.item_separator = text_of(separators[0]);
    style.key_separator = text_of(separators[1]);
  }
  Text text;
  write_json(session, text, self, style);
  return session.text(std::move(text));
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
  if (step == 0) core::fail("range: the step must not be zero");
  std::vector<Value> numbers;
  for (int64_t i = begin; step > 0 ? i < end : i > end;) {
    if (numbers.size() >= kMaxRange) core::fail("a range has more than {} items", kMaxRange);
    numbers.push_back({i});
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  return session.list(std::move(numbers));
}

Value make_dict(Session& session, const Value&, const Arguments& arguments) {
  std::vector<std::pair<Value, Value>> pairs;
  const size_t n = arguments.n_positional();
  if (n > 1) core::fail("{} arguments, expected at most 1", n);
  if (n == 1) pairs = pairs_of(session, arguments.values[0]);
  std::ranges::move(keyword_pairs(session, arguments), std::back_inserter(pairs));
  return session.dict(std::move(pairs));
}

Value make_namespace(Session& session, const Value& self, const Arguments& arguments) {
  const Value attributes = make_dict(session, self, arguments);
  Namespace& made = session.make_namespace();
  for (const auto& [name, value] : attributes.dict()->items) made.attributes[to_utf8(text_of(name))] = value;
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

template <bool kKeys>
Value keys_or_values(Session& session, const Value& self, const Arguments& arguments) {
  static_cast<void>(bind(arguments, {}));
  std::vector<Value> values;
  for (const auto& [key, value] : self.dict()->items) values.push_back(kKeys ? key : value);
  return session.list(std::move(values));
}

Value count_of(Session& session, const Value& self, const Arguments& arguments) {
  const Value& item = *bind(arguments, {"value"}, 1)[0];
  const auto& all = self.list()->items;
  return {static_cast<int64_t>(std::ranges::count_if(all, [&](const Value& v) { return equal(session, v, item); }))};
}

Value index_of(Session& session, const Value& self, const Arguments& arguments) {
  const Value& item = *bind(arguments, {"value"}, 1)[0];
  const auto& all = self.list()->items;
  const auto found = std::ranges::find_if(all, [&](const Value& v) { return equal(session, v, item); });
  if (found == all.end()) core::fail("the value is not in the list");
  return {static_cast<int64_t>(found - all.begin())};
}

Value cycle(Session&, const Value& self, const Arguments& arguments) {
  if (arguments.values.empty() || !arguments.names.empty()) core::fail("no items for cycling given");
  const auto n = static_cast<int64_t>(arguments.values.size());
  return arguments.values[static_cast<size_t>(std::get<Loop*>(self.data)->index0 % n)];
}

Value changed(Session& session, const Value& self, const Arguments& arguments) {
  Loop& loop = *std::get<Loop*>(self.data);
  const auto same_value = [&](const Value& a, const Value& b) { return equal(session, a, b); };
  if (loop.changed && std::ranges::equal(*loop.changed, arguments.values, same_value)) return {false};
  loop.changed = arguments.values;
  return {true};
}

constexpr std::array kGlobals{Builtin{"range", range}, Builtin{"dict", make_dict}, Builtin{"namespace", make_namespace},
                              Builtin{"raise_exception", raise_exception}, Builtin{"strftime_now", strftime_now}};

constexpr std::array kDictMethods{Builtin{"items", items}, Builtin{"get", get}, Builtin{"keys", keys_or_values<true>},
                                  Builtin{"values", keys_or_values<false>}};
constexpr std::array kListMethods{Builtin{"count", count_of}, Builtin{"index", index_of}};
constexpr std::array kLoopMethods{Builtin{"cycle", cycle}, Builtin{"changed", changed}};

constexpr std::array kFilters{Builtin{"d", or_default},   Builtin{"default", or_default}, Builtin{"items", items},
                              Builtin{"safe", unchanged}, Builtin{"string", to_string},   Builtin{"tojson", to_json}};

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
  for (const auto table :
       {std::span<const Builtin>(kFilters), text_filters(), sequence_filters(), layout_filters(), number_filters()}) {
    if (const Builtin* found = find_in(table, name)) return found;
  }
  return nullptr;
}

const Builtin* find_method(const Value& value, std::string_view name) {
  if (value.text() != nullptr) return find_in(text_methods(), name);
  if (value.list() != nullptr) return find_in(kListMethods, name);
  if (value.is<Loop*>()) return find_in(kLoopMethods, name);
  return value.dict() != nullptr ? find_in(kDictMethods, name) : nullptr;
}

Value attribute_of(Session& session, const Value& object, const Value& name) {
  Value method = method_or_undefined(object, name);
  return method.is_undefined() ? item_of(session, object, name) : method;
}

Value item_of(Session& session, const Value& object, const Value& key) {
  require_defined(object);
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
  if (const List* list = object.list(); list != nullptr && list->is_group && key.text() != nullptr) {
    if (same(*key.text(), U"grouper")) return list->items[0];
    if (same(*key.text(), U"list")) return list->items[1];
  }
  return method_or_undefined(object, key);
}

Value attribute_at(Session& session, Value item, const Value& path, const Value* otherwise) {
  const auto step = [&](const Value& key) {
    item = item_of(session, item, key);
    if (otherwise != nullptr && !otherwise->is_none() && item.is_undefined()) item = *otherwise;
  };
  if (path.is_none()) return item;
  if (path.text() == nullptr) {
    step(path);
    return item;
  }
  for (TextView rest = *path.text();;) {
    const size_t dot = std::ranges::find(rest, U'.', code_of) - rest.begin();
    const TextView part = rest.substr(0, dot);
    const bool is_index = !part.empty() && part.size() < 10 && std::ranges::all_of(part, is_decimal);
    step(is_index ? Value{int64_t{std::stoi(to_utf8(part))}} : session.text(Text(part)));
    if (dot >= rest.size()) return item;
    rest.remove_prefix(dot + 1);
  }
}

std::vector<const Value*> bind(const Arguments& arguments, std::initializer_list<std::string_view> names,
                               size_t n_required) {
  return arguments.bind({names.begin(), names.size()}, n_required);
}

std::vector<std::pair<Value, Value>> pairs_of(Session& session, const Value& value) {
  if (value.dict() != nullptr) return value.dict()->items;
  std::vector<std::pair<Value, Value>> pairs;
  for (const Value& item : items_of(session, value)) {
    std::vector<Value> pair = items_of(session, item);
    if (pair.size() != 2) core::fail("a pair has {} items, expected 2", pair.size());
    pairs.emplace_back(std::move(pair[0]), std::move(pair[1]));
  }
  return pairs;
}

std::vector<std::pair<Value, Value>> keyword_pairs(Session& session, const Arguments& arguments) {
  std::vector<std::pair<Value, Value>> pairs;
  for (size_t i = 0; i < arguments.names.size(); ++i) {
    pairs.emplace_back(session.text(from_utf8(arguments.names[i])), arguments.values[arguments.n_positional() + i]);
  }
  return pairs;
}

bool is_true(const Value* argument, bool otherwise) { return argument == nullptr ? otherwise : truthy(*argument); }

int64_t integer(const Value* argument, int64_t otherwise) {
  if (argument == nullptr || argument->is_none()) return otherwise;
  if (const int64_t* i = std::get_if<int64_t>(&argument->data)) return *i;
  if (const bool* b = std::get_if<bool>(&argument->data)) return *b ? 1 : 0;
  core::fail("expected an integer, not '{}'", type_name(*argument));
}

void require_defined(const Value& value) {
  const auto* undefined = std::get_if<Undefined>(&value.data);
  if (undefined != nullptr) core::fail("'{}' is undefined", core::printable(undefined->name));
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
