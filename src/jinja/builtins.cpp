#include "jinja/builtins.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ctime>

#include "core/error.h"

namespace folio::data::jinja {
namespace {

// ---- sequences ----

Value length(Session&, const Value& self, const Arguments&) {
  if (const Text* text = self.text()) return {static_cast<int64_t>(text->size())};
  if (const List* list = self.list()) return {static_cast<int64_t>(list->items.size())};
  if (const Dict* dict = self.dict()) return {static_cast<int64_t>(dict->items.size())};
  if (!self.is_undefined()) core::fail("object of type '{}' has no len()", type_name(self));
  return {int64_t{0}};
}

Value to_list(Session& session, const Value& self, const Arguments&) { return session.list(items_of(session, self)); }

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

// A dict's pairs in the order of their keys, whatever their letters' case.
Value dictsort(Session& session, const Value& self, const Arguments& arguments) {
  static_cast<void>(bind(arguments, {}));
  if (self.dict() == nullptr) core::fail("dictsort is for a mapping, not '{}'", type_name(self));
  auto pairs = self.dict()->items;
  const auto key_of = [&](const Value& key) { return key.text() ? session.text(lower_case(*key.text())) : key; };
  std::stable_sort(pairs.begin(), pairs.end(),
                   [&](const auto& a, const auto& b) { return less(session, key_of(a.first), key_of(b.first)); });
  return pairs_of(session, *session.dict(std::move(pairs)).dict());
}

// The rest of the arguments of a filter that applies another: map("replace", "a", "b").
Arguments behind(const Arguments& arguments, size_t n) {
  return {.values = {arguments.values.begin() + static_cast<ptrdiff_t>(n), arguments.values.end()},
          .names = arguments.names};
}

size_t n_positional(const Arguments& arguments) { return arguments.values.size() - arguments.names.size(); }

// map("upper"): a filter of each item.
Value map(Session& session, const Value& self, const Arguments& arguments) {
  if (n_positional(arguments) == 0) core::fail("map is supported with the name of a filter alone");
  const std::string name = to_utf8(text_of(arguments.values[0]));
  const Builtin* filter = find_filter(name);
  if (filter == nullptr) core::fail("there is no filter '{}' here", core::printable(name));
  const Arguments rest = behind(arguments, 1);
  std::vector<Value> values;
  if (truthy(self)) values = items_of(session, self);  // none as well is empty here
  for (Value& value : values) value = filter->call(session, value, rest);
  return session.list(std::move(values));
}

// selectattr and reject: the items whose attribute passes a test, and those that fail it themselves.
template <bool kHasAttribute, bool kKeeps>
Value select(Session& session, const Value& self, const Arguments& arguments) {
  constexpr size_t kBefore = kHasAttribute ? 1 : 0;
  const size_t n = n_positional(arguments);
  if (n < kBefore) core::fail("the attribute is missing");
  const Builtin* test = nullptr;
  if (n > kBefore) {
    const std::string name = to_utf8(text_of(arguments.values[kBefore]));
    test = find_test(name);
    if (test == nullptr) core::fail("there is no test '{}' here", core::printable(name));
  }
  const Arguments rest = behind(arguments, std::min(n, kBefore + 1));
  std::vector<Value> kept;
  if (!truthy(self)) return session.list({});
  for (const Value& item : items_of(session, self)) {
    const Value value = kHasAttribute ? item_of(session, item, arguments.values[0]) : item;
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
  const auto a = bind(arguments, {"ensure_ascii", "indent"});
  JsonStyle style{.ascii = a[0] != nullptr && truthy(*a[0])};
  if (a[1] != nullptr && !a[1]->is_none()) {
    style.lines = true;
    style.item_separator = Text(1, U',');
    style.indent = a[1]->text() != nullptr
                       ? *a[1]->text()
                       : Text(static_cast<size_t>(std::clamp<int64_t>(integer(a[1], 0), 0, 1000)), U' ');
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
  if (step == 0) core::fail("range: the step is zero");
  std::vector<Value> numbers;
  for (int64_t i = begin; step > 0 ? i < end : i > end;) {
    if (numbers.size() >= kMaxRange) core::fail("a range has more than {} numbers", kMaxRange);
    numbers.push_back({i});
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  return session.list(std::move(numbers));
}

Value make_namespace(Session& session, const Value&, const Arguments& arguments) {
  if (n_positional(arguments) > 0) core::fail("a namespace takes names with values");
  Namespace& made = session.make_namespace();
  for (size_t i = 0; i < arguments.values.size(); ++i) made.attributes[arguments.names[i]] = arguments.values[i];
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

constexpr std::array kGlobals{Builtin{"range", range}, Builtin{"namespace", make_namespace},
                              Builtin{"raise_exception", raise_exception}, Builtin{"strftime_now", strftime_now}};

constexpr std::array kDictMethods{Builtin{"items", items}, Builtin{"get", get}};

constexpr std::array kFilters{Builtin{"default", or_default},
                              Builtin{"dictsort", dictsort},
                              Builtin{"items", items},
                              Builtin{"length", length},
                              Builtin{"list", to_list},
                              Builtin{"map", map},
                              Builtin{"reject", select<false, false>},
                              Builtin{"safe", itself},
                              Builtin{"selectattr", select<true, true>},
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
