#include "infer/forms/json_value.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "core/error.h"
#include "core/json.h"
#include "infer/forms/json_number.h"

namespace folio::infer::forms {
namespace {

using Kind = JsonValue::Kind;

constexpr size_t kMostSchemaBytes = size_t{1} << 19U;
constexpr size_t kMostDepth = 64;

// Builds a value from the events of nlohmann's SAX parser. Numbers are kept as text, so that none is rounded.
class ValueBuilder : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { return add({.kind = Kind::Null}); }
  bool boolean(bool value) override { return add({.kind = value ? Kind::True : Kind::False}); }
  bool number_integer(number_integer_t value) override { return number(fmt::to_string(value)); }
  bool number_unsigned(number_unsigned_t value) override { return number(fmt::to_string(value)); }
  bool number_float(number_float_t /*value*/, const string_t& text) override { return number(text); }
  bool string(string_t& value) override { return add({.kind = Kind::String, .text = value}); }
  bool binary(binary_t& /*value*/) override { return false; }
  bool start_object(size_t /*n*/) override { return open(Kind::Object); }
  bool start_array(size_t /*n*/) override { return open(Kind::Array); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& value) override {
    core::require(open_.back().keys.emplace(value, 0).second, "#: duplicate key {}",
                  core::printable(json_quoted(value), 80));
    open_.back().key = value;
    return true;
  }
  bool parse_error(size_t /*at*/, const std::string& /*token*/, const nlohmann::json::exception& error) override {
    core::fail("#: invalid JSON: {}", core::message_of(error));
  }

  [[nodiscard]] Json result() const { return result_; }

 private:
  struct Open {
    JsonValue value;
    std::string key{};
    std::unordered_map<std::string, int> keys{};
  };

  bool number(const std::string& text) { return add({.kind = Kind::Number, .text = text}); }
  bool open(Kind kind) {
    core::require(open_.size() < kMostDepth, "#: nested more than {} levels deep", kMostDepth);
    open_.push_back({.value = {.kind = kind}});
    return true;
  }
  bool close() {
    JsonValue value = std::move(open_.back().value);
    open_.pop_back();
    return add(std::move(value));
  }
  bool add(JsonValue value) {
    Json made = make_json(std::move(value));
    if (open_.empty()) {
      result_ = std::move(made);
    } else if (open_.back().value.is(Kind::Object)) {
      open_.back().value.members.emplace_back(open_.back().key, std::move(made));
    } else {
      open_.back().value.items.push_back(std::move(made));
    }
    return true;
  }

  std::vector<Open> open_;
  Json result_;
};

// Returns the value as JSON. If `normalized`, equal numbers have equal texts, and members are sorted.
std::string text_of(const JsonValue& value, bool normalized) {
  std::vector<std::string> parts;
  switch (value.kind) {
    case Kind::Null:
      return "null";
    case Kind::False:
      return "false";
    case Kind::True:
      return "true";
    case Kind::Number: {
      if (!normalized) return value.text;
      const Decimal number(value.text);
      return fmt::format("{}{}e{}", number.negative ? "-" : "", number.digits, number.exponent);
    }
    case Kind::String:
      return json_quoted(value.text);
    case Kind::Array:
      for (const Json& item : value.items) parts.push_back(text_of(*item, normalized));
      return fmt::format("[{}]", fmt::join(parts, ","));
    default:
      for (const auto& [key, member] : value.members) {
        parts.push_back(json_quoted(key) + ":" + text_of(*member, normalized));
      }
      if (normalized) std::ranges::sort(parts);
      return fmt::format("{{{}}}", fmt::join(parts, ","));
  }
}

}  // namespace

Json JsonValue::at(std::string_view key) const {
  const auto found = std::ranges::find(members, key, [](const auto& member) { return std::string_view(member.first); });
  return found == members.end() ? nullptr : found->second;
}

Json make_json(JsonValue value) { return std::make_shared<const JsonValue>(std::move(value)); }

Json make_list(std::vector<Json> items) { return make_json({.kind = Kind::Array, .items = std::move(items)}); }

void set_member(JsonValue& object, std::string_view key, Json value) {
  for (auto& [name, member] : object.members) {
    if (name == key) {
      member = std::move(value);
      return;
    }
  }
  object.members.emplace_back(key, std::move(value));
}

Json read_json(std::string_view text, const core::WorkBudget& budget) {
  core::require(text.size() <= kMostSchemaBytes, "#: has {} bytes, but at most {} are allowed", text.size(),
                kMostSchemaBytes);
  budget.spend(text.size());
  ValueBuilder builder;
  nlohmann::json::sax_parse(text.begin(), text.end(), &builder);
  return builder.result();
}

std::string json_quoted(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string written(const JsonValue& value) { return text_of(value, false); }
std::string identity(const JsonValue& value) { return text_of(value, true); }

JsonSet::JsonSet(const Json& list, core::WorkBudget budget) : budget_(std::move(budget)) {
  if (!list) return;
  for (const Json& value : list->items) (void)add(value);
}

std::string JsonSet::key(const Json& value) const {
  std::string key = identity(*value);
  budget_.spend(1 + key.size());
  return key;
}

}  // namespace folio::infer::forms
