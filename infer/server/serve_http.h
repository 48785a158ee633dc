// A service with HTTP in front of it: what the program `serve` runs.
#pragma once

#include <functional>
#include <string>

#include "infer/server/service.h"

namespace folio::infer::server {

/// Answers what comes until the process is told to end: the first SIGINT or SIGTERM lets what runs end, a second one
/// doesn't. `ready` is called with the address when requests can come. Nobody else may use the engine meanwhile.
/// Throws core::Error as HttpServer does.
void serve_http(Engine& engine, ServedModel served, ServiceOptions options, const HttpOptions& http_options,
                const std::function<void(const std::string& address)>& ready);

}  // namespace folio::infer::server
