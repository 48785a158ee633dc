// Checks the headers of a request: Host, Origin (CORS) and the API key.
#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"
#include "infer/server/service.h"

namespace folio::infer::server {
namespace {

// Returns true if the strings are equal, in a time that doesn't depend on where they differ.
bool same_secret(std::string_view given, std::string_view secret) {
  unsigned difference = given.size() == secret.size() ? 0 : 1;
  for (size_t i = 0; i < given.size(); ++i) {
    difference |= static_cast<unsigned>(static_cast<uint8_t>(given[i]) ^
                                        static_cast<uint8_t>(secret[secret.empty() ? 0 : i % secret.size()]));
  }
  return difference == 0;
}

// Returns a Host header's name without the port: "[::1]" for "[::1]:8080".
std::string without_port(const std::string& host) {
  const size_t colon = host.rfind(':');
  const bool has_port = colon != std::string::npos && host.find(']', colon) == std::string::npos;
  return host.substr(0, has_port ? colon : std::string::npos);
}

// Returns true for an IP address. A host name is less safe: an attacker's DNS server can resolve a name to this server
// (DNS rebinding).
bool is_address(const std::string& host) {
  return !host.empty() && (host[0] == '[' || host.find_first_not_of("0123456789.") == std::string::npos);
}

bool contains(const std::vector<std::string>& all, const std::string& one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

// Returns true if browsers can send `text` as an Origin header: a scheme and a host, and no path or default port. Apps
// send file:// and schemes of their own.
bool is_origin(const std::string& text) {
  const size_t at = text.find("://");
  if (at == std::string::npos) return text == "null";
  if (text.find_first_of("/*@? ", at + 3) != std::string::npos) return false;
  const std::string lower = lower_case(text);
  if (!lower.starts_with("http")) return true;
  return lower == text && at + 3 < text.size() && !text.ends_with(text.starts_with("https:") ? ":443" : ":80");
}

}  // namespace

void check_allowed(ServiceOptions& options) {
  if (trimmed(options.api_key) != options.api_key || options.api_key.find_first_of("\r\n") != std::string::npos) {
    throw core::UsageError("--api-key: no request can have a key that begins or ends with a space or has a line break");
  }
  for (std::string& host : options.allowed_hosts) {
    std::string name = lower_case(host);
    if (std::ranges::count(name, ':') > 1 && !name.starts_with('[')) name = "[" + name + "]";
    if (name.empty() || name.find_first_of("/*@ ") != std::string::npos || without_port(name) != name) {
      throw core::UsageError(fmt::format(
          "--allowed-host {}: expected a name or an address without scheme, port and path, such as example.org",
          core::printable(host)));
    }
    host = name;
  }
  for (const std::string& origin : options.allowed_origins) {
    if (is_origin(origin)) continue;
    throw core::UsageError(
        fmt::format("--allowed-origin {}: expected SCHEME://HOST or SCHEME://HOST:PORT as browsers send it, such as "
                    "https://example.org",
                    core::printable(origin)));
  }
}

// Checks the Host header and the API key. The Host header protects against pages of other sites, which can send
// requests through a visitor's browser and, with DNS rebinding, read the answers.
void Service::check_access(const HttpRequest& request, HttpReply& reply) const {
  reply.add_header("X-Content-Type-Options", "nosniff");
  if (contains(options_.allowed_origins, request.origin)) {
    reply.add_header("Access-Control-Allow-Origin", request.origin);
    reply.add_header("Vary", "Origin");
  }
  const std::string host = lower_case(without_port(request.host));
  if (host.empty()) throw ApiError(400, "the request has no Host header; send one");
  const bool everywhere = contains(options_.allowed_hosts, "0.0.0.0") || contains(options_.allowed_hosts, "[::]");
  if (!contains(options_.allowed_hosts, host) && !(everywhere && is_address(host))) {
    throw ApiError(403, fmt::format("the host {} is not allowed; start the server with --allowed-host NAME",
                                    core::printable(host)));
  }
  const Route* route = route_of(request.path);
  if (request.method == "OPTIONS" || (route != nullptr && route->description.open)) return;
  constexpr std::string_view kBearer = "bearer ";
  const std::string& given = request.authorization;
  const bool bearer = lower_case(given.substr(0, kBearer.size())) == kBearer;
  if (options_.api_key.empty() || (bearer && same_secret(given.substr(kBearer.size()), options_.api_key))) return;
  reply.add_header("WWW-Authenticate", "Bearer");
  throw ApiError(401, "the API key is missing or wrong; send \"Authorization: Bearer KEY\"", "", "invalid_api_key");
}

// Answers an OPTIONS request with the methods of its route and, for pages of allowed origins, the methods and headers
// that they may send (CORS).
void Service::send_options(const HttpRequest& request, HttpReply& reply, const char* methods) {
  reply.add_header("Allow", methods);
  if (contains(options_.allowed_origins, request.origin)) {
    reply.add_header("Access-Control-Allow-Methods", "GET, POST");
    // Clients add headers of their own, such as X-Stainless-OS. The * doesn't include Authorization.
    reply.add_header("Access-Control-Allow-Headers", "*, Authorization, Content-Type");
    reply.add_header("Access-Control-Max-Age", "600");
  }
  ++metrics_.requests[{path_of(request), 204}];
  reply.send(204, "", "");
}

}  // namespace folio::infer::server
