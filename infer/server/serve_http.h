// A service with HTTP in front of it: what the program `serve` runs.
#pragma once

#include <functional>
#include <string>

#include "infer/server/service.h"

namespace folio::infer::server {

/// Serves until a SIGINT, SIGTERM or SIGHUP, after which it ends what runs; a second one cuts that off. Calls `ready`
/// with the address when requests can come, and `lost` ten times a second: true, the engine can't continue, ends it as
/// a signal does. No one else may use the engine meanwhile. Throws core::Error as HttpServer does.
void serve_http(Engine& engine, ServedModel served, ServiceOptions options, const HttpOptions& http_options,
                const std::function<void(const std::string& address)>& ready, const std::function<bool()>& lost = {});

}  // namespace folio::infer::server
