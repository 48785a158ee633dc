// OpenAPI schemas of requests and answers. They are the source of request validation, /openapi.json and the web page's
// input fields. Sampling parameters come from SamplerOptions::visit_fields.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

namespace folio::infer {
struct SamplerOptions;
}

namespace folio::infer::server {

using Json = nlohmann::json;
using Ordered = nlohmann::ordered_json;  ///< keeps the order of keys

/// Returns the schema called `name`, such as "ChatRequest". The schema must exist.
[[nodiscard]] const Json& schema(std::string_view name);

/// A route's entry in /openapi.json.
struct RouteDescription {
  std::string_view path;  ///< such as "/v1/models/{model}": the part in braces matches any text
  std::string_view summary;
  std::string_view request{};  ///< name of the posted body's schema; empty: a GET route
  std::string_view answer{};   ///< name of the answer's schema; empty: any object
  std::string_view media = "application/json";
  bool streams = false;  ///< true: with "stream": true, the answer is a stream of events
  bool open = false;     ///< true: requires no API key
};

/// Returns the OpenAPI 3.1 description of all routes as JSON. `defaults` are the served model's sampling defaults.
[[nodiscard]] std::string openapi(std::span<const RouteDescription> routes, const SamplerOptions& defaults);

/// Returns a JSON object of schemas by name, for the numeric input fields of the server's web page. `defaults` are the
/// served model's sampling defaults.
[[nodiscard]] std::string page_fields(const SamplerOptions& defaults);

}  // namespace folio::infer::server
