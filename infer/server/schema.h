// Requests and answers as OpenAPI schemas, from which the checks of requests, /openapi.json and the page's fields are
// derived. Sampling parameters come from SamplerOptions::visit_fields.
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

/// Returns the schema of that name, such as "ChatRequest".
[[nodiscard]] const Json& schema(std::string_view name);

/// A route's entry in /openapi.json.
struct RouteDescription {
  std::string_view path;  ///< a part in braces at the end matches any text
  std::string_view summary;
  std::string_view request{};  ///< schema of the posted body; empty: a GET route
  std::string_view answer{};   ///< schema of the answer; empty: any object
  std::string_view media = "application/json";
  bool streams = false;  ///< with "stream": true, the answer is a stream of events
  bool open = false;     ///< requires no API key
};

/// Returns the whole OpenAPI 3.1 description. `defaults` are the served model's, here and below.
[[nodiscard]] std::string openapi(std::span<const RouteDescription> routes, const SamplerOptions& defaults);

/// Returns the numeric fields shown on the page, by name, each with its schema, as JSON.
[[nodiscard]] std::string page_fields(const SamplerOptions& defaults);

}  // namespace folio::infer::server
