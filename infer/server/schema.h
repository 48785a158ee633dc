// Requests and answers as OpenAPI's schemas, from which the checks of requests, /openapi.json and the page's fields
// follow. The sampler's numbers are from SamplerOptions::visit_fields.
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

/// The schema of that name, such as "ChatRequest".
[[nodiscard]] const Json& schema(std::string_view name);

/// What the description says of a route.
struct RouteDescription {
  std::string_view path;  ///< what is in braces at its end is any text
  std::string_view summary;
  std::string_view request{};  ///< the schema of what is posted; empty: it takes GET
  std::string_view answer{};   ///< the schema of the answer; empty: an object
  std::string_view media = "application/json";
  bool streams = false;  ///< with "stream": true the answer is events
  bool open = false;     ///< asks for no key
};

/// The whole description, of OpenAPI 3.1. `defaults` are those of the model that is served, here and below.
[[nodiscard]] std::string openapi(std::span<const RouteDescription> routes, const SamplerOptions& defaults);

/// The numbers that the page asks for, by name, each with its schema.
[[nodiscard]] std::string page_fields(const SamplerOptions& defaults);

}  // namespace folio::infer::server
