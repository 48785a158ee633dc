// The fields of a request, each checked against its schema. Errors name the invalid field.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <exception>
#include <initializer_list>
#include <optional>
#include <string>

#include "core/json.h"
#include "core/work_budget.h"
#include "infer/forward/machine.h"
#include "infer/server/api.h"
#include "infer/server/schema.h"

namespace folio::infer::server {

/// Throws ApiError 400 with the message "'field' why". `why` is an fmt format string for `args`.
template <typename... Args>
[[noreturn]] void refuse(const std::string& field, fmt::format_string<Args...> why, Args&&... args) {
  throw ApiError(400, fmt::format("'{}' {}", field, fmt::format(why, std::forward<Args>(args)...)), field);
}

/// Throws ApiError 400 for a value of the wrong type. `what` describes the expected type.
[[noreturn]] void refuse_type(const std::string& field, const std::string& what);

/// Returns the result of make(). Turns a core::Error into an ApiError 400 that names `field`, if not empty. If make()
/// exceeds the budget, the error names the part of the request that needs too much work. `place` is the path in the
/// request of the value that make() processes.
template <typename Make>
[[nodiscard]] auto made_for(const std::string& field, const std::string& place, const core::WorkBudget& budget,
                            Make&& make) {
  const core::WorkBudget::Place counted(budget, place);
  try {
    return make();
  } catch (const core::TooMuchWork& error) {
    throw ApiError(400, error.what(), field.empty() ? "" : error.place(), "too_much_work");
  } catch (const core::WorkStopped&) {
    throw;
  } catch (const MachineError&) {  // not the request's fault
    throw api_error(std::current_exception());
  } catch (const core::Error& error) {
    throw ApiError(400, field.empty() ? error.what() : fmt::format("'{}': {}", field, error.what()), field);
  }
}

/// Parses `text`, the JSON of `body`, again to keep the order of keys; omits logit_bias.
[[nodiscard]] Ordered in_order(const Json& body, std::string_view text, const core::WorkBudget& budget);

/// The fields of a JSON object, checked against a schema. A field that is null counts as absent, even an unknown one.
class Fields {
 public:
  /// Throws ApiError 400 if `body` has a field that is not in the schema or that is in `unsupported`: fields that other
  /// servers support. `name` is the field that contains `body`, if any. `body` and `schema` must outlive this object.
  Fields(const Json& body, const Json& schema, std::initializer_list<const char*> unsupported = {},
         const std::string& name = {});

  [[nodiscard]] const Json& json() const { return body_; }
  /// Returns the field's value, or null if the field is absent.
  [[nodiscard]] const Json* find(const std::string& name) const;
  /// Returns the members of a field that is an object; no members if the field is absent. Throws ApiError if a member
  /// is unknown.
  [[nodiscard]] Fields inside(const std::string& name) const;
  [[nodiscard]] const Json& schema(const std::string& name) const { return fields_.at(name); }
  /// Returns the number, or the schema's default if the field is absent. Throws ApiError if it is out of range.
  [[nodiscard]] double number(const std::string& name) const;
  /// Returns the integer; if the field is absent, the schema's default or, without one, nullopt. Throws ApiError if the
  /// integer is outside the schema's range or [low, high].
  [[nodiscard]] std::optional<int64_t> integer(const std::string& name, int64_t low = INT64_MIN,
                                               int64_t high = INT64_MAX) const;
  [[nodiscard]] bool flag(const std::string& name) const;
  /// Returns the string, or null if the field is absent.
  [[nodiscard]] const std::string* text(const std::string& name) const;
  /// Throws ApiError unless the field is absent or has `value`, the only supported value.
  void only(const std::string& name, const Json& value) const;

 private:
  const Json& body_;
  const Json& fields_;
  std::string prefix_;  ///< prepended to field names in messages
};

}  // namespace folio::infer::server
