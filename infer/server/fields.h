// The fields of a request, checked one by one against its schema. What is wrong is refused by name.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>

#include "infer/server/api.h"
#include "infer/server/schema.h"

namespace folio::infer::server {

/// Throws ApiError 400: "'field' why", with a format of fmt and its arguments.
template <typename... Args>
[[noreturn]] void refuse(const std::string& field, fmt::format_string<Args...> why, Args&&... args) {
  throw ApiError(400, fmt::format("'{}' {}", field, fmt::format(why, std::forward<Args>(args)...)), field);
}

/// A value of another type than the field's.
[[noreturn]] void refuse_type(const std::string& field, const std::string& what);

/// All that the schema does not have is unknown. A field that is null counts as absent, an unknown one too.
class Fields {
 public:
  /// `unsupported` are other servers' fields. `name` is the field that the body is, if any. Body and schema must
  /// outlive it.
  Fields(const Json& body, const Json& schema, std::initializer_list<const char*> unsupported = {},
         const std::string& name = {});

  /// Null where it is not there.
  [[nodiscard]] const Json* find(const std::string& name) const;
  [[nodiscard]] const Json& schema(const std::string& name) const { return fields_.at(name); }
  /// The default where it is not there.
  [[nodiscard]] double number(const std::string& name) const;
  /// Nothing where it is not there and has no default. `low` and `high` are narrower limits than the schema's.
  [[nodiscard]] std::optional<int64_t> integer(const std::string& name, int64_t low = INT64_MIN,
                                               int64_t high = INT64_MAX) const;
  [[nodiscard]] bool flag(const std::string& name) const;
  /// Null where it is not there.
  [[nodiscard]] const std::string* text(const std::string& name) const;
  /// A field that is there for others, and may have this value alone.
  void only(const std::string& name, const Json& value) const;

 private:
  const Json& body_;
  const Json& fields_;
  std::string prefix_;  ///< of names in messages
};

}  // namespace folio::infer::server
