// The fields of a request, each checked against its schema. Errors name the invalid field.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>

#include "infer/server/api.h"
#include "infer/server/schema.h"

namespace folio::infer::server {

/// Throws ApiError 400, "'field' why", where `why` is a format string of fmt for `args`.
template <typename... Args>
[[noreturn]] void refuse(const std::string& field, fmt::format_string<Args...> why, Args&&... args) {
  throw ApiError(400, fmt::format("'{}' {}", field, fmt::format(why, std::forward<Args>(args)...)), field);
}

/// Throws ApiError 400 for a value of the wrong type; `what` is the expected one.
[[noreturn]] void refuse_type(const std::string& field, const std::string& what);

/// Rejects fields that the schema doesn't have. A field that is null counts as absent, even an unknown one.
class Fields {
 public:
  /// `unsupported` are fields of other servers, rejected with that reason. `name` is the field that contains `body`, if
  /// any. `body` and `schema` must outlive it.
  Fields(const Json& body, const Json& schema, std::initializer_list<const char*> unsupported = {},
         const std::string& name = {});

  /// Returns the value; null if the field is absent.
  [[nodiscard]] const Json* find(const std::string& name) const;
  [[nodiscard]] const Json& schema(const std::string& name) const { return fields_.at(name); }
  /// Returns the value, or the default if the field is absent.
  [[nodiscard]] double number(const std::string& name) const;
  /// Returns the value or the default; nullopt if there is neither. `low` and `high` narrow the limits of the schema.
  [[nodiscard]] std::optional<int64_t> integer(const std::string& name, int64_t low = INT64_MIN,
                                               int64_t high = INT64_MAX) const;
  [[nodiscard]] bool flag(const std::string& name) const;
  /// Returns the value; null if the field is absent.
  [[nodiscard]] const std::string* text(const std::string& name) const;
  /// Throws unless the field is absent or has this value, the only supported one.
  void only(const std::string& name, const Json& value) const;

 private:
  const Json& body_;
  const Json& fields_;
  std::string prefix_;  ///< prepended to field names in messages
};

}  // namespace folio::infer::server
