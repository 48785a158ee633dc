#include "infer/server/fields.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "core/error.h"
#include "infer/server/request_reader.h"

namespace folio::infer::server {
namespace {

// Returns the name in lower case without separators, so that maxTokens, max-tokens and max_tokens are equal.
std::string folded(const std::string& name) {
  std::string result = lower_case(name);
  std::erase_if(result, [](char c) { return c == '_' || c == '-'; });
  return result;
}

// Counts the insertions, deletions, substitutions and swaps of neighbors that turn one name into the other.
size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<size_t> before_last;
  std::vector<size_t> last;
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    before_last = std::exchange(last, row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
  }
  return row.back();
}

// Returns " (did you mean max_tokens?)", or "" if every known field differs in more than a third of its letters.
std::string suggestion(const std::string& unknown, const Json& known) {
  constexpr size_t kLongest = 64;
  if (unknown.size() > kLongest) return "";
  const std::string from = folded(unknown);
  std::string nearest;
  double least = 1.0 / 3.0;
  for (const auto& [name, schema] : known.items()) {
    const std::string to = folded(name);
    const size_t longer = std::max({from.size(), to.size(), size_t{1}});
    const double share = static_cast<double>(edit_distance(from, to)) / static_cast<double>(longer);
    if (share > least || (share == least && !nearest.empty())) continue;
    least = share;
    nearest = name;
  }
  return nearest.empty() ? "" : fmt::format(" (did you mean {}?)", nearest);
}

// Returns the number of core::WorkBudget steps that parse_ordered_json() of `value` costs. To keep the order of keys,
// it compares each key with all keys before it.
uint64_t steps_in_order(const Json& value) {
  constexpr size_t kComparedPerStep = 16;
  uint64_t n = 1 + (value.is_object() ? value.size() * value.size() / kComparedPerStep : 0);
  if (!value.is_structured()) return n;
  for (const Json& part : value) n += steps_in_order(part);
  return n;
}

}  // namespace

Ordered in_order(const Json& body, std::string_view text, const core::WorkBudget& budget) {
  return made_for("", "body", budget, [&] {
    budget.spend(steps_in_order(body));
    return core::parse_ordered_json(text, "the body", "logit_bias");
  });
}

void refuse_type(const std::string& field, const std::string& what) {
  throw ApiError(400, fmt::format("'{}' must be {}", field, what), field, "invalid_type");
}

Fields::Fields(const Json& body, const Json& schema, std::initializer_list<const char*> unsupported,
               const std::string& name)
    : body_(body), fields_(schema["properties"]), prefix_(name.empty() ? "" : name + ".") {
  if (!body.is_object() && !name.empty()) refuse_type(name, "a JSON object");
  if (!body.is_object()) throw ApiError(400, "the body must be a JSON object");
  for (const char* field : unsupported) {
    if (find(field) != nullptr) refuse(prefix_ + field, "is not supported");
  }
  std::vector<std::string> unknown;
  for (const auto& [field, value] : body_.items()) {
    if (!value.is_null() && !fields_.contains(field) && std::ranges::find(unsupported, field) == unsupported.end()) {
      unknown.push_back(field);
    }
  }
  if (unknown.empty()) return;
  const std::string first = prefix_ + core::printable(unknown.front());
  const size_t n = unknown.size();
  unknown.resize(std::min<size_t>(n, 10));
  for (std::string& field : unknown) field = core::printable(field) + suggestion(field, fields_);
  throw ApiError(
      400,
      fmt::format("unknown field{}{}: {}{}", n == 1 ? "" : "s", name.empty() ? "" : " of '" + name + "'",
                  fmt::join(unknown, ", "), n > unknown.size() ? fmt::format(" and {} more", n - unknown.size()) : ""),
      first, "unknown_parameter");
}

const Json* Fields::find(const std::string& name) const {
  const auto found = body_.find(name);
  return found == body_.end() || found->is_null() ? nullptr : &*found;
}

Fields Fields::inside(const std::string& name) const {
  static const Json kNone = Json::object();
  const Json* value = find(name);
  return Fields(value == nullptr ? kNone : *value, schema(name), {}, prefix_ + name);
}

double Fields::number(const std::string& name) const {
  const Json& known = schema(name);
  const auto low = known["minimum"].get<double>();
  const auto high = known["maximum"].get<double>();
  const Json* value = find(name);
  if (value == nullptr) return known["default"];
  if (!value->is_number()) refuse_type(prefix_ + name, "a number");
  const auto number = value->get<double>();
  if (!(number >= low && number <= high)) refuse(prefix_ + name, "is {}, but must be in [{}, {}]", number, low, high);
  return number;
}

std::optional<int64_t> Fields::integer(const std::string& name, int64_t low, int64_t high) const {
  const Json& known = schema(name);
  low = std::max(low, known.value("minimum", INT64_MIN));
  high = std::min(high, known.value("maximum", INT64_MAX));
  const Json* value = find(name);
  if (value == nullptr && !known.contains("default")) return std::nullopt;
  if (value == nullptr) return known["default"].get<int64_t>();
  if (!value->is_number_integer()) refuse_type(prefix_ + name, "an integer");
  const bool huge = value->is_number_unsigned() && value->get<uint64_t>() > static_cast<uint64_t>(INT64_MAX);
  if (huge || value->get<int64_t>() < low || value->get<int64_t>() > high)
    refuse(prefix_ + name, "is {}, but must be in [{}, {}]", value->dump(), low, high);
  return value->get<int64_t>();
}

bool Fields::flag(const std::string& name) const {
  const Json* value = find(name);
  if (value == nullptr) return schema(name)["default"];
  if (!value->is_boolean()) refuse_type(prefix_ + name, "true or false");
  return value->get<bool>();
}

const std::string* Fields::text(const std::string& name) const {
  const Json* value = find(name);
  if (value != nullptr && !value->is_string()) refuse_type(prefix_ + name, "a string");
  return value == nullptr ? nullptr : value->get_ptr<const std::string*>();
}

void Fields::only(const std::string& name, const Json& value) const {
  const Json* given = find(name);
  if (given != nullptr && *given != value) refuse(prefix_ + name, "is only supported as {}", value.dump());
}

}  // namespace folio::infer::server
