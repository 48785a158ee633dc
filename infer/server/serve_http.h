// A service with HTTP in front of it: what the program `serve` runs.
#pragma once

#include <functional>
#include <string>

#include "infer/server/service.h"

namespace folio::infer::server {

/// Answers what comes until the process is told to end: the first SIGINT, SIGTERM or SIGHUP lets what runs end, a
/// second one doesn't. `ready` is called with the address when requests can come. Once `lost`, which is asked ten times
/// a second, says that the engine can't go on, nothing new begins, and it ends with what runs. Nobody else may use the
/// engine meanwhile. Throws core::Error as HttpServer does.
void serve_http(Engine& engine, ServedModel served, ServiceOptions options, const HttpOptions& http_options,
                const std::function<void(const std::string& address)>& ready, const std::function<bool()>& lost = {});

}  // namespace folio::infer::server
