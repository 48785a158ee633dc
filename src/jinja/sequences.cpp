// Filters for sequences. Filters that return an iterator in Python return a list here.
#include <algorithm>
#include <array>
#include <random>

#include "core/error.h"
#include "jinja/builtins.h"

namespace folio::data::jinja {
namespace {

Value length(Session&, const Value& self, const Arguments& arguments) {
  static_cast<void>(bind(arguments, {}));
  if (const Text* text = self.text()) return {static_cast<int64_t>(text->size())};
  if (const List* list = self.list()) return {static_cast<int64_t>(list->items.size())};
  if (const Dict* dict = self.dict()) return {static_cast<int64_t>(dict->items.size())};
  if (!self.is_undefined()) core::fail("object of type '{}' has no len()", type_name(self));
  return {int64_t{0}};
}

Value to_list(Session& session, const Value& self, const Arguments&) { return session.list(items_of(session, self)); }

template <bool kLast>
Value first_or_last(Session& session, const Value& self, const Arguments& arguments) {
  static_cast<void>(bind(arguments, {}));
  const std::vector<Value> items = items_of(session, self);
  return items.empty() ? Value{} : kLast ? items.back() : items.front();
}

Value random_item(Session& session, const Value& self, const Arguments& arguments) {
  static_cast<void>(bind(arguments, {}));
  if (self.dict() != nullptr) core::fail("random requires a list or a string");
  const std::vector<Value> items = items_of(session, self);
  if (items.empty()) return {};
  std::random_device source;
  return items[std::uniform_int_distribution<size_t>(0, items.size() - 1)(source)];
}

Value reverse(Session& session, const Value& self, const Arguments& arguments) {
  static_cast<void>(bind(arguments, {}));
  if (const Text* text = self.text()) return session.text(Text(text->rbegin(), text->rend()));
  std::vector<Value> items = items_of(session, self);
  std::ranges::reverse(items);
  return session.list(std::move(items));
}

Value folded(Session& session, const Value& value, bool case_sensitive) {
  return value.text() != nullptr && !case_sensitive ? session.text(lower_case(*value.text())) : value;
}

struct Keyed {
  Value key;
  Value item;
};

std::vector<Keyed> keyed(Session& session, const Value& self, const Value* attribute, bool case_sensitive,
                         const Value* otherwise = nullptr) {
  std::vector<Keyed> all;
  for (Value& item : items_of(session, self)) {
    const Value key = attribute == nullptr ? item : attribute_at(session, item, *attribute, otherwise);
    all.push_back({.key = folded(session, key, case_sensitive), .item = std::move(item)});
  }
  return all;
}

void sort_keyed(Session& session, std::vector<Keyed>& all, bool reversed) {
  std::stable_sort(all.begin(), all.end(), [&](const Keyed& a, const Keyed& b) {
    return reversed ? less(session, b.key, a.key) : less(session, a.key, b.key);
  });
}

Value items_in_order(Session& session, std::vector<Keyed> all, bool reversed) {
  sort_keyed(session, all, reversed);
  std::vector<Value> items;
  for (Keyed& one : all) items.push_back(std::move(one.item));
  return session.list(std::move(items));
}

Value sort(Session& session, const Value& self, const Arguments& arguments) {
  const auto a = bind(arguments, {"reverse", "case_sensitive", "attribute"});
  std::vector<Value> paths;  // "name,age" sorts by name, then by age
  if (a[2] != nullptr && a[2]->text() != nullptr) {
    for (TextView rest = *a[2]->text();;) {
      const size_t comma = std::ranges::find(rest, U',', code_of) - rest.begin();
      paths.push_back(session.text(Text(rest.substr(0, comma))));
      if (comma >= rest.size()) break;
      rest.remove_prefix(comma + 1);
    }
  } else {
    paths.push_back(a[2] == nullptr ? Value{None{}} : *a[2]);
  }
  std::vector<Keyed> all;
  for (const Value& item : items_of(session, self)) {
    std::vector<Value> keys;
    for (const Value& path : paths) {
      keys.push_back(folded(session, attribute_at(session, item, path), is_true(a[1])));
    }
    all.push_back({.key = session.list(std::move(keys)), .item = item});
  }
  return items_in_order(session, std::move(all), is_true(a[0]));
}

// Returns a list of a dict's (key, value) pairs, sorted by key or by value.
Value dictsort(Session& session, const Value& self, const Arguments& arguments) {
  const auto a = bind(arguments, {"case_sensitive", "by", "reverse"});
  if (self.dict() == nullptr) core::fail("dictsort requires a mapping, not '{}'", type_name(self));
  const bool by_value = a[1] != nullptr && same(text_of(*a[1]), U"value");
  if (!by_value && a[1] != nullptr && !same(text_of(*a[1]), U"key"))
    core::fail("dictsort can only sort by \"key\" or \"value\"");
  std::vector<Keyed> all;
  for (const auto& [key, value] : self.dict()->items) {
    all.push_back(
        {.key = folded(session, by_value ? value : key, is_true(a[0])), .item = session.list({key, value}, true)});
  }
  return items_in_order(session, std::move(all), is_true(a[2]));
}

template <bool kMax>
Value extreme(Session& session, const Value& self, const Arguments& arguments) {
  const auto a = bind(arguments, {"case_sensitive", "attribute"});
  const std::vector<Keyed> all = keyed(session, self, a[1], is_true(a[0]));
  const Keyed* best = nullptr;
  for (const Keyed& one : all) {
    if (best == nullptr || (kMax ? less(session, best->key, one.key) : less(session, one.key, best->key))) best = &one;
  }
  return best == nullptr ? Value{} : best->item;
}

Value sum(Session& session, const Value& self, const Arguments& arguments) {
  const auto a = bind(arguments, {"attribute", "start"});
  Value total = a[1] == nullptr ? Value{int64_t{0}} : *a[1];
  if (total.text() != nullptr) core::fail("sum cannot add strings; use join");
  for (const Value& item : items_of(session, self)) {
    total = operation(session, "+", total, a[0] == nullptr ? item : attribute_at(session, item, *a[0]));
  }
  return total;
}

Value unique(Session& session, const Value& self, const Arguments& arguments) {
  const auto a = bind(arguments, {"case_sensitive", "attribute"});
  std::vector<Value> kept;
  std::vector<Value> keys;
  for (const auto& [key, item] : keyed(session, self, a[1], is_true(a[0]))) {
    require_hashable(key);
    if (std::ranges::any_of(keys, [&](const Value& known) { return equal(session, known, key); })) continue;
    keys.push_back(key);
    kept.push_back(item);
  }
  return session.list(std::move(kept));
}

Value groupby(Session& session, const Value& self, const Arguments& arguments) {
  const auto a = bind(arguments, {"attribute", "default", "case_sensitive"}, 1);
  std::vector<Keyed> all = keyed(session, self, a[0], is_true(a[2]), a[1]);
  sort_keyed(session, all, false);
  std::vector<Value> groups;
  for (size_t from = 0, to = 0; from < all.size(); from = to) {
    std::vector<Value> items;
    for (; to < all.size() && equal(session, all[to].key, all[from].key); ++to) items.push_back(all[to].item);
    const Value name = is_true(a[2]) ? all[from].key : attribute_at(session, items[0], *a[0], a[1]);
    groups.push_back(session.list({name, session.list(std::move(items))}, true, true));
  }
  return session.list(std::move(groups));
}

Value batch(Session& session, const Value& self, const Arguments& arguments) {
  const auto a = bind(arguments, {"linecount", "fill_with"}, 1);
  const int64_t n = integer(a[0], 0);
  std::vector<Value> batches;
  std::vector<Value> current;
  for (const Value& item : items_of(session, self)) {
    if (static_cast<int64_t>(current.size()) == n) batches.push_back(session.list(std::exchange(current, {})));
    current.push_back(item);
  }
  if (!current.empty()) {
    if (a[1] != nullptr && !a[1]->is_none()) {
      if (n > static_cast<int64_t>(kMaxRange)) core::fail("a batch has more than {} items", kMaxRange);
      while (static_cast<int64_t>(current.size()) < n) current.push_back(*a[1]);
    }
    batches.push_back(session.list(std::move(current)));
  }
  return session.list(std::move(batches));
}

Value slice(Session& session, const Value& self, const Arguments& arguments) {
  const auto a = bind(arguments, {"slices", "fill_with"}, 1);
  const std::vector<Value> items = items_of(session, self);
  const int64_t n = integer(a[0], 0);
  if (n == 0) core::fail("division by zero");
  if (n > static_cast<int64_t>(kMaxRange)) core::fail("a list has more than {} slices", kMaxRange);
  std::vector<Value> slices;
  size_t at = 0;
  for (int64_t i = 0; i < n; ++i) {
    const auto size = static_cast<int64_t>(items.size());
    const size_t end = at + static_cast<size_t>(size / n + (i < size % n ? 1 : 0));
    std::vector<Value> current(items.begin() + static_cast<ptrdiff_t>(at), items.begin() + static_cast<ptrdiff_t>(end));
    if (a[1] != nullptr && !a[1]->is_none() && i >= size % n) current.push_back(*a[1]);
    slices.push_back(session.list(std::move(current)));
    at = end;
  }
  return session.list(std::move(slices));
}

// Returns the arguments after the first n, such as "a", "b" of map("replace", "a", "b").
Arguments without_first(const Arguments& arguments, size_t n) {
  return {.values = {arguments.values.begin() + static_cast<ptrdiff_t>(n), arguments.values.end()},
          .names = arguments.names};
}

// Applies a filter to each item, as in map("upper"), or returns an attribute of each: map(attribute="name").
Value map(Session& session, const Value& self, const Arguments& arguments) {
  if (!truthy(self)) return session.list({});  // returns an empty list also for none
  std::vector<Value> values = items_of(session, self);
  if (arguments.n_positional() == 0) {
    const auto a = bind(arguments, {"attribute", "default"}, 1);
    for (Value& value : values) value = attribute_at(session, value, *a[0], a[1]);
    return session.list(std::move(values));
  }
  const std::string name = to_utf8(text_of(arguments.values[0]));
  const Builtin* filter = find_filter(name);
  if (filter == nullptr) core::fail("no filter named '{}'", core::printable(name));
  const Arguments rest = without_first(arguments, 1);
  for (Value& value : values) value = filter->call(session, value, rest);
  return session.list(std::move(values));
}

// Returns the items that pass a test, or those that fail it if kKeeps is false. With kHasAttribute, tests an attribute
// of each item. Without a test, an item passes if it is true.
template <bool kHasAttribute, bool kKeeps>
Value select(Session& session, const Value& self, const Arguments& arguments) {
  constexpr size_t kBefore = kHasAttribute ? 1 : 0;
  if (!truthy(self)) return session.list({});
  const size_t n = arguments.n_positional();
  if (n < kBefore) core::fail("missing attribute");
  const Builtin* test = nullptr;
  if (n > kBefore) {
    const std::string name = to_utf8(text_of(arguments.values[kBefore]));
    test = find_test(name);
    if (test == nullptr) core::fail("no test named '{}'", core::printable(name));
  }
  const Arguments rest = without_first(arguments, std::min(n, kBefore + 1));
  std::vector<Value> kept;
  for (const Value& item : items_of(session, self)) {
    const Value value = kHasAttribute ? attribute_at(session, item, arguments.values[0]) : item;
    if (truthy(test == nullptr ? value : test->call(session, value, rest)) == kKeeps) kept.push_back(item);
  }
  return session.list(std::move(kept));
}

Value join(Session& session, const Value& self, const Arguments& arguments) {
  const auto a = bind(arguments, {"d", "attribute"});
  const Text separator = a[0] == nullptr ? Text() : as_text(session, *a[0]);
  Text result;
  const std::vector<Value> items = items_of(session, self);
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) session.append(result, separator);
    session.append(result, as_text(session, a[1] == nullptr ? items[i] : attribute_at(session, items[i], *a[1])));
  }
  return session.text(std::move(result));
}

// Returns a method, or an attribute of a namespace. Unlike object.name, never returns an item of a dict.
Value attr(Session& session, const Value& self, const Arguments& arguments) {
  const Value& name = *bind(arguments, {"name"}, 1)[0];
  static_cast<void>(text_of(name));
  return self.dict() == nullptr || find_method(self, to_utf8(*name.text())) != nullptr
             ? attribute_of(session, self, name)
             : Value{};
}

constexpr std::array kSequenceFilters{Builtin{"attr", attr},
                                      Builtin{"batch", batch},
                                      Builtin{"count", length},
                                      Builtin{"dictsort", dictsort},
                                      Builtin{"first", first_or_last<false>},
                                      Builtin{"groupby", groupby},
                                      Builtin{"join", join},
                                      Builtin{"last", first_or_last<true>},
                                      Builtin{"length", length},
                                      Builtin{"list", to_list},
                                      Builtin{"map", map},
                                      Builtin{"max", extreme<true>},
                                      Builtin{"min", extreme<false>},
                                      Builtin{"random", random_item},
                                      Builtin{"reject", select<false, false>},
                                      Builtin{"rejectattr", select<true, false>},
                                      Builtin{"reverse", reverse},
                                      Builtin{"select", select<false, true>},
                                      Builtin{"selectattr", select<true, true>},
                                      Builtin{"slice", slice},
                                      Builtin{"sort", sort},
                                      Builtin{"sum", sum},
                                      Builtin{"unique", unique}};

}  // namespace

std::span<const Builtin> sequence_filters() { return kSequenceFilters; }

}  // namespace folio::data::jinja
