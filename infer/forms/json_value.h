// JSON as it is written: members in their order, and numbers as text, so that nothing is rounded. Values are shared and
// never changed, so a copy of an object costs its keys alone.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "core/work_budget.h"

namespace folio::infer::forms {

struct JsonValue;
using Json = std::shared_ptr<const JsonValue>;

struct JsonValue {
  enum class Kind : uint8_t { Null, False, True, Number, String, Array, Object };
  Kind kind = Kind::Null;
  std::string text{};                                   ///< of String; of Number as it is written
  std::vector<Json> items{};                            ///< of Array
  std::vector<std::pair<std::string, Json>> members{};  ///< of Object; no key twice

  [[nodiscard]] bool is(Kind other) const { return kind == other; }
  /// Of an object; null if it has no such member.
  [[nodiscard]] Json at(std::string_view key) const;
};

[[nodiscard]] Json make_json(JsonValue value);
[[nodiscard]] Json make_list(std::vector<Json> items);
/// In place of the member of that name, or behind the others.
void set_member(JsonValue& object, std::string_view key, Json value);

/// Costs a step for each byte. Throws core::Error that begins with "#: " if the text is not JSON, has more than 512 KB,
/// or nests deeper than 64.
[[nodiscard]] Json read_json(std::string_view text, const core::WorkBudget& budget = core::WorkBudget());

/// As Python's json.dumps(text, ensure_ascii=False) writes it: every string is written in one way.
[[nodiscard]] std::string json_quoted(std::string_view text);

/// On one line, without spaces. Strings are as `json_quoted`, numbers as they were written.
[[nodiscard]] std::string written(const JsonValue& value);

/// The same text for values that are the same to a schema: 1 and 1.0 are, and the order of members does not count.
[[nodiscard]] std::string identity(const JsonValue& value);

/// Values that differ to a schema. A value costs a step for each byte that it is written with, each time.
class JsonSet {
 public:
  /// `list` may be null.
  JsonSet(const Json& list, core::WorkBudget budget);
  /// Whether it is new.
  bool add(const Json& value) { return known_.insert(key(value)).second; }
  [[nodiscard]] bool has(const Json& value) const { return known_.contains(key(value)); }

 private:
  [[nodiscard]] std::string key(const Json& value) const;

  core::WorkBudget budget_;
  std::unordered_set<std::string> known_;
};

}  // namespace folio::infer::forms
