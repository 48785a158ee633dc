// Runs the service over HTTP, for the program `serve`.
#pragma once

#include <functional>
#include <string>

#include "infer/server/service.h"

namespace folio::infer::server {

/// Serves until SIGINT, SIGTERM or SIGHUP, then lets running requests end; a second signal cancels them. Calls `ready`
/// with the address once the server accepts requests. Calls `lost` ten times a second; if it returns true (the engine
/// can't continue), shuts down as after a signal. No other thread may use the engine. Throws core::Error if the
/// address can't be used or an adapter is invalid, and MachineLost if a step did, after shutting down as well.
void serve_http(Engine& engine, ServedModel served, ServiceOptions options, const HttpOptions& http_options,
                const std::function<void(const std::string& address)>& ready, const std::function<bool()>& lost = {});

}  // namespace folio::infer::server
