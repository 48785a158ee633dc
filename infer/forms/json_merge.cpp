#include "infer/forms/json_merge.h"

#include <algorithm>
#include <numeric>
#include <unordered_set>
#include <utility>

#include "core/error.h"
#include "core/number.h"
#include "infer/forms/json_number.h"

namespace folio::infer::forms {
namespace {

using Kind = JsonValue::Kind;

constexpr size_t kMostAlternatives = 256;
constexpr size_t kMostMerged = 4'000;
constexpr size_t kMostWork = 200'000;
constexpr int kMostReferences = 64;

// Returns a measure of the work for a schema: 1, plus its members, plus the elements and members of their values.
size_t size_of(const JsonValue& schema) {
  size_t n = 1;
  for (const auto& [key, value] : schema.members) n += 1 + value->items.size() + value->members.size();
  return n;
}

std::string unescaped(std::string_view token, const std::string& ref, const std::string& at) {
  std::string to;
  for (size_t i = 0; i < token.size(); ++i) {
    if (token[i] == '~' && i + 1 < token.size() && (token[i + 1] == '0' || token[i + 1] == '1')) {
      to += token[++i] == '0' ? '~' : '/';
    } else if (token[i] == '%') {
      const auto byte = i + 2 < token.size() ? core::number_of<uint8_t>(token.substr(i + 1, 2), 16) : std::nullopt;
      core::require(byte.has_value(), "{}: '$ref' \"{}\" is not a valid JSON pointer", at, core::printable(ref));
      to += static_cast<char>(*byte);
      i += 2;
    } else {
      to += token[i];
    }
  }
  return to;
}

}  // namespace

SchemaMerger::SchemaMerger(Json root, core::WorkBudget budget)
    : root_(std::move(root)), budget_(std::move(budget)), is_old_(is_old_draft(*root_)) {}

void SchemaMerger::work(size_t n, const std::string& at) {
  budget_.spend(n);
  n_work_ += n;
  core::require(n_work_ <= kMostWork, "{}: too large after expanding 'allOf', 'anyOf', 'oneOf' and '$ref'", at);
}

Json SchemaMerger::assertions(const Schema& schema) {
  work(1, schema.at);
  Json& known = assertions_[schema.value];
  if (!known) known = assertions_of(schema, schema.value == root_, is_old_, budget_);
  return known;
}

Schema SchemaMerger::target(const std::string& ref, const std::string& at) const {
  core::require(ref.starts_with('#') && (ref.size() == 1 || ref[1] == '/'),
                "{}: '$ref' \"{}\" is not supported; only \"#\" and \"#/…\" are", at, core::printable(ref));
  Json value = root_;
  for (size_t i = 1; i < ref.size();) {
    const size_t end = std::min(ref.find('/', i + 1), ref.size());
    const std::string token = unescaped(std::string_view(ref).substr(i + 1, end - i - 1), ref, at);
    budget_.spend(1 + value->members.size());
    Json next = value->is(Kind::Object) ? value->at(token) : nullptr;
    if (value->is(Kind::Array)) {
      const auto index = core::number_of<size_t>(token);
      if (index && *index < value->items.size()) next = value->items[*index];
    }
    core::require(next != nullptr, "{}: '$ref' \"{}\" is not in the schema", at, core::printable(ref));
    value = std::move(next);
    i = end;
  }
  return {.value = value, .at = core::printable(ref, 120)};
}

// Returns the allowed values of `property` in a branch. Throws core::Error unless the branch lists them, by const or
// enum, and all are strings.
std::vector<std::string> SchemaMerger::tags(const Schema& branch, const std::string& property, const std::string& at,
                                            int depth) {
  std::vector<std::string> all;
  const auto add = [&](const Json& values) {
    bool fits = values != nullptr;
    for (size_t i = 0; fits && i < values->items.size(); ++i) {
      fits = values->items[i]->is(Kind::String);
      all.push_back(values->items[i]->text);
    }
    core::require(fits, "{}: 'discriminator' requires '{}' to be a 'const' or 'enum' of strings in each branch", at,
                  core::printable(property, 60));
  };
  for (const Json& one : alternatives(branch, depth)) {
    const Json properties = one->at("properties");
    const Json tag = properties ? properties->at(property) : nullptr;
    if (!tag) add(nullptr);
    for (const Json& way : alternatives({.value = tag, .at = at}, depth)) add(way->at("enum"));
  }
  return all;
}

Json SchemaMerger::branches(const Schema& schema, const char* name, int depth) {
  const Json all = schema.value->at(name);
  const Json by = schema.value->at("discriminator");
  if (!by) return all;
  const std::string& at = schema.at;
  const Json property = by->is(Kind::Object) ? by->at("propertyName") : nullptr;
  const Json mapping = by->is(Kind::Object) ? by->at("mapping") : nullptr;
  core::require(property && property->is(Kind::String) && (!mapping || mapping->is(Kind::Object)),
                "{}: 'discriminator' must have a string 'propertyName' and may have an object 'mapping'", at);
  core::require(schema.value->at("oneOf") || schema.value->at("anyOf"),
                "{}: 'discriminator' is only supported next to 'oneOf' or 'anyOf'", at);
  if (!all) return all;
  Json& known = branches_[{schema.value, name}];
  if (known) return known;
  std::vector<Json> required;
  std::unordered_map<std::string, std::vector<std::string>> by_reference;
  for (size_t i = 0; i < all->items.size(); ++i) {
    const Json& branch = all->items[i];
    auto values = tags({.value = branch, .at = fmt::format("{}/{}/{}", at, name, i)}, property->text, at, depth + 1);
    if (const Json ref = branch->at("$ref"); ref && ref->is(Kind::String)) by_reference[ref->text] = std::move(values);
    JsonValue tagged{.kind = Kind::Object};
    set_member(tagged, "type", make_json({.kind = Kind::String, .text = "object"}));
    set_member(tagged, "required", make_list({property}));
    JsonValue both{.kind = Kind::Object};
    set_member(both, "allOf", make_list({branch, make_json(std::move(tagged))}));
    required.push_back(make_json(std::move(both)));
  }
  for (const auto& [value, to] : mapping ? mapping->members : std::vector<std::pair<std::string, Json>>()) {
    const auto found = by_reference.find(to->text);
    core::require(found != by_reference.end() && std::ranges::find(found->second, value) != found->second.end(),
                  "{}: the 'mapping' of 'discriminator' maps {} to {}, which is not a branch with that value", at,
                  core::printable(value, 60), core::printable(to->text, 60));
  }
  return branches_[{schema.value, name}] = make_list(std::move(required));
}

std::vector<Json> SchemaMerger::alternatives(const Schema& schema, int depth) {
  core::require(depth < kMostReferences, "{}: refers to itself or is nested too deeply", schema.at);
  if (schema.value->is(Kind::False)) return {};
  std::vector<Json> all{assertions(schema)};
  if (schema.value->is(Kind::True)) return all;
  const auto multiply = [&](const std::vector<Json>& by) {
    core::require(all.size() * by.size() <= kMostAlternatives, "{}: has more than {} alternatives", schema.at,
                  kMostAlternatives);
    std::vector<Json> product;
    for (const Json& a : all) {
      for (const Json& b : by) {
        if (Json one = merged(a, b, schema.at)) product.push_back(std::move(one));
      }
    }
    all = std::move(product);
  };
  if (const Json ref = schema.value->at("$ref")) multiply(alternatives(target(ref->text, schema.at), depth + 1));
  if (const Json parts = schema.value->at("allOf")) {
    for (size_t i = 0; i < parts->items.size(); ++i) {
      multiply(alternatives({parts->items[i], fmt::format("{}/allOf/{}", schema.at, i)}, depth + 1));
    }
  }
  for (const char* name : {"anyOf", "oneOf"}) {
    const Json branches = compares_ ? schema.value->at(name) : this->branches(schema, name, depth);
    if (!branches) continue;
    if (std::string_view(name) == "oneOf" && !compares_) require_disjoint(branches, schema.at, depth + 1);
    std::vector<Json> sum;
    for (size_t i = 0; i < branches->items.size(); ++i) {
      const auto of = alternatives({branches->items[i], fmt::format("{}/{}/{}", schema.at, name, i)}, depth + 1);
      sum.insert(sum.end(), of.begin(), of.end());
    }
    multiply(sum);
  }
  return all;
}

void SchemaMerger::require_disjoint(const Json& branches, const std::string& at, int depth) {
  std::vector<std::vector<Json>> all;
  for (size_t i = 0; i < branches->items.size(); ++i) {
    all.push_back(alternatives({branches->items[i], fmt::format("{}/oneOf/{}", at, i)}, depth));
  }
  for (size_t i = 0; i < all.size(); ++i) {
    for (size_t j = i + 1; j < all.size(); ++j) {
      for (const Json& a : all[i]) {
        for (const Json& b : all[j]) {
          core::require(
              disjoint(*a, *b, at, 0),
              "{}: 'oneOf' is only supported if no value can match two branches, but branches {} and {} may overlap; "
              "use 'anyOf'",
              at, i, j);
        }
      }
    }
  }
}

// Returns true if types, enum values or required properties show that no value satisfies both schemas. May return false
// even though the schemas are disjoint.
bool SchemaMerger::disjoint(const JsonValue& a, const JsonValue& b, const std::string& at, int depth) {
  if (&a == &b) return false;
  work(size_of(a) + size_of(b), at);
  const Json values = a.at("enum");
  const Json others = b.at("enum");
  if (values && others) {
    const JsonSet known(others, budget_);
    return std::ranges::none_of(values->items, [&](const Json& value) { return known.has(value); });
  }
  const TypeSet x = types_of(a);
  const TypeSet y = types_of(b);
  if (values) return std::ranges::none_of(values->items, [&](const Json& value) { return has_type(*value, y); });
  if (others) return std::ranges::none_of(others->items, [&](const Json& value) { return has_type(*value, x); });
  const TypeSet shared = x & y;
  if (TypeSet(shared).reset(Type::Object).any()) return false;
  if (shared.none()) return true;
  const Json required = a.at("required");
  const Json properties = a.at("properties");
  const Json other_required = b.at("required");
  const Json other_properties = b.at("properties");
  if (!required || !properties || !other_required || !other_properties || depth > 4) return false;
  const JsonSet known(other_required, budget_);
  for (const Json& name : required->items) {
    if (!known.has(name)) continue;
    budget_.spend(1 + properties->members.size() + other_properties->members.size());
    const Json p = properties->at(name->text);
    const Json q = other_properties->at(name->text);
    if (!p || !q) continue;
    // A property may contain this oneOf again, so checking the oneOf of properties here would recurse without end. They
    // are checked when their own schemas are compiled.
    const bool compared = std::exchange(compares_, true);
    const std::vector<Json> first = alternatives({p, "#"}, depth + kMostReferences / 2);
    const std::vector<Json> second = alternatives({q, "#"}, depth + kMostReferences / 2);
    const bool all = std::ranges::all_of(first, [&](const Json& one) {
      return std::ranges::all_of(second, [&](const Json& other) { return disjoint(*one, *other, at, depth + 1); });
    });
    compares_ = compared;
    if (all) return true;
  }
  return false;
}

Json SchemaMerger::both(const Json& a, const Json& b) {
  if (!a || a == b || (b && b->is(Kind::False))) return b;
  if (!b || a->is(Kind::False) || b->is(Kind::True)) return a;
  if (a->is(Kind::True)) return b;
  Json& known = both_[{a, b}];
  if (!known) {
    core::require(++n_merged_ <= kMostMerged, "#: 'allOf' and '$ref' expand to more than {} schemas", kMostMerged);
    JsonValue all{.kind = Kind::Object};
    set_member(all, "allOf", make_list({a, b}));
    known = make_json(std::move(all));
  }
  return known;
}

// Combines the values of a keyword that both schemas have. Returns the keyword's value in the conjunction of the
// schemas; null if no value satisfies both. For keywords of properties and items, returns the value in `a`:
// merge_objects() and merge_arrays() combine those.
Json SchemaMerger::merged_keyword(const std::string& key, const JsonValue& a, const JsonValue& b,
                                  const std::string& at) {
  if (key == "type") {
    const TypeSet types = types_of(a) & types_of(b);
    return types.any() ? types_json(types) : nullptr;
  }
  const Json x = a.at(key);
  const Json y = b.at(key);
  if (key == "enum") {
    const JsonSet known(y, budget_);
    std::vector<Json> common;
    for (const Json& one : x->items) {
      if (known.has(one)) common.push_back(one);
    }
    return common.empty() ? nullptr : make_list(std::move(common));
  }
  if (key == "required" || key == "pattern") {  // merged patterns are a list, all of which must match
    const auto list = [](const Json& json) { return json->is(Kind::String) ? std::vector{json} : json->items; };
    std::vector<Json> all = list(x);
    JsonSet known(make_list(all), budget_);
    for (const Json& one : list(y)) {
      if (known.add(one)) all.push_back(one);
    }
    return make_list(std::move(all));
  }
  if (key == "multipleOf") {
    const auto number = [&](const Json& json) {
      const uint64_t n = core::number_of<uint32_t>(json->text).value_or(0);
      core::require(n > 0, "{}: two 'multipleOf' can only be combined if both are integers", at);
      return n;
    };
    return make_json({.kind = Kind::Number, .text = fmt::to_string(std::lcm(number(x), number(y)))});
  }
  if (key.starts_with("min") || key == "exclusiveMinimum") {
    return compare(Decimal(x->text), Decimal(y->text)) < 0 ? y : x;
  }
  if (key.starts_with("max") || key == "exclusiveMaximum") {
    return compare(Decimal(x->text), Decimal(y->text)) > 0 ? y : x;
  }
  core::require(key != "format" || x->text == y->text, "{}: two different values of '{}' cannot be combined", at, key);
  return x;
}

// Returns the conjunction of two objects of assertions; null if no value satisfies both.
Json SchemaMerger::merged(const Json& a, const Json& b, const std::string& at) {
  if (a->members.empty()) return b;
  if (b->members.empty()) return a;
  work(size_of(*a) + size_of(*b), at);
  core::require(++n_merged_ <= kMostMerged, "{}: 'allOf' and '$ref' expand to more than {} schemas", at, kMostMerged);
  JsonValue to = *a;
  for (const auto& [key, value] : b->members) {
    const Json other = a->at(key);
    Json both = !other || other == value ? value : merged_keyword(key, *a, *b, at);
    if (!both) return nullptr;
    set_member(to, key, std::move(both));
  }
  merge_objects(to, *a, *b, at);
  merge_arrays(to, *a, *b);
  return make_json(std::move(to));
}

void SchemaMerger::merge_objects(JsonValue& to, const JsonValue& a, const JsonValue& b, const std::string& at) {
  const auto has_properties = [](const JsonValue& schema) {
    return schema.at("properties") || schema.at("additionalProperties") || schema.at("patternProperties");
  };
  if (!has_properties(a) || !has_properties(b)) return;
  core::require(!a.at("patternProperties") && !b.at("patternProperties"),
                "{}: 'patternProperties' cannot be combined with the properties of another schema", at);
  // Merges the properties of `a`, then adds those that only `b` has.
  JsonValue properties{.kind = Kind::Object};
  const Json own = a.at("properties");
  const Json other = b.at("properties");
  const auto add = [&](const std::string& name, const Json& value) {
    properties.members.emplace_back(name, value ? value : make_json({.kind = Kind::True}));
  };
  std::unordered_map<std::string_view, Json> others;
  std::unordered_set<std::string_view> names;
  if (other) {
    for (const auto& [name, value] : other->members) others.emplace(name, value);
  }
  if (own) {
    for (const auto& [name, value] : own->members) {
      names.insert(name);
      const auto found = others.find(name);
      add(name, both(value, found != others.end() ? found->second : b.at("additionalProperties")));
    }
  }
  if (other) {
    for (const auto& [name, value] : other->members) {
      if (!names.contains(name)) add(name, both(a.at("additionalProperties"), value));
    }
  }
  set_member(to, "properties", make_json(std::move(properties)));
  if (const Json rest = both(a.at("additionalProperties"), b.at("additionalProperties"))) {
    set_member(to, "additionalProperties", rest);
  }
}

void SchemaMerger::merge_arrays(JsonValue& to, const JsonValue& a, const JsonValue& b) {
  const Json first = a.at("prefixItems");
  const Json second = b.at("prefixItems");
  const auto item = [](const JsonValue& schema, const Json& prefix, size_t i) {
    return prefix && i < prefix->items.size() ? prefix->items[i] : schema.at("items");
  };
  const size_t n = std::max(first ? first->items.size() : 0, second ? second->items.size() : 0);
  std::vector<Json> items;
  for (size_t i = 0; i < n; ++i) {
    const Json one = both(item(a, first, i), item(b, second, i));
    items.push_back(one ? one : make_json({.kind = Kind::True}));
  }
  if (n > 0) set_member(to, "prefixItems", make_list(std::move(items)));
  if (const Json rest = both(a.at("items"), b.at("items"))) set_member(to, "items", rest);
}

}  // namespace folio::infer::forms
