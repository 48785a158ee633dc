// JSON values that keep the order of members and the text of numbers, so nothing is rounded. Values are immutable and
// shared, so copying an object only copies its keys.
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
  std::string text{};                                   ///< String: the value; Number: the text as written
  std::vector<Json> items{};                            ///< Array: the elements
  std::vector<std::pair<std::string, Json>> members{};  ///< Object: the members; keys are unique

  [[nodiscard]] bool is(Kind other) const { return kind == other; }
  /// Returns the value of a member; null if the object has no such member.
  [[nodiscard]] Json at(std::string_view key) const;
};

[[nodiscard]] Json make_json(JsonValue value);
[[nodiscard]] Json make_list(std::vector<Json> items);
/// Replaces the member named `key`, or appends a new one.
void set_member(JsonValue& object, std::string_view key, Json value);

/// Parses JSON; spends one budget step per byte. Throws core::Error that begins with "#: " if `text` is not valid JSON,
/// has more than 512 KB or nests more than 64 levels deep.
[[nodiscard]] Json read_json(std::string_view text, const core::WorkBudget& budget = core::WorkBudget());

/// Quotes a string as Python's json.dumps(text, ensure_ascii=False) does, so that each string has only one spelling.
[[nodiscard]] std::string json_quoted(std::string_view text);

/// Returns the value as JSON on one line without spaces; strings as in json_quoted(), numbers as they were written.
[[nodiscard]] std::string written(const JsonValue& value);

/// Returns a string that is equal for values that a schema treats as equal, such as 1 and 1.0.
[[nodiscard]] std::string identity(const JsonValue& value);

/// A set of JSON values, compared by identity(). Each operation spends one budget step per byte of identity().
class JsonSet {
 public:
  /// Creates the set of the elements of `list`; empty if `list` is null.
  JsonSet(const Json& list, core::WorkBudget budget);
  /// Adds a value. Returns true if it was not in the set.
  bool add(const Json& value) { return known_.insert(key(value)).second; }
  [[nodiscard]] bool has(const Json& value) const { return known_.contains(key(value)); }

 private:
  [[nodiscard]] std::string key(const Json& value) const;

  core::WorkBudget budget_;
  std::unordered_set<std::string> known_;
};

}  // namespace folio::infer::forms
