#include "infer/server/serve_http.h"

#include <fmt/format.h>

#include <utility>

namespace folio::infer::server {

// The local objects are destroyed in reverse order, which matters: first, `stop` stops the engine's thread; then the
// service ends the thread that reads adapters, which uses `async` and `http`; `async` and `http` are destroyed last.
void serve_http(Engine& engine, ServedModel served, ServiceOptions options, const HttpOptions& http_options,
                const std::function<void(const std::string&)>& ready, const std::function<bool()>& lost) {
  Service* made = nullptr;  // set before the server accepts requests
  using Reply = Service::Reply;
  HttpServer http(http_options,
                  {.admit = [&](const HttpRequest& request, const Reply& reply) { return made->admit(request, reply); },
                   .handle = [&](HttpRequest request, const Reply& reply) { made->handle(std::move(request), reply); },
                   .refuse = [&](int status, std::string_view why) { return made->refused(status, why); }});
  options.allowed_hosts.push_back(http.address());
  if (http_options.host != http.address()) options.allowed_hosts.push_back(http_options.host);
  options.allowed_hosts.emplace_back("localhost");
  AsyncEngine async(engine);
  Service service(async, std::move(served), std::move(options),
                  [&](std::function<void()> work) { http.post(std::move(work)); });
  made = &service;
  struct Stop {
    AsyncEngine& engine;
    ~Stop() { engine.stop(); }
  } const stop{async};
  bool was_lost = false;
  http.on_tick([&] {
    service.check_timeouts();
    if ((async.loss() || (lost && lost())) && !std::exchange(was_lost, true)) service.end_soon();
    if (service.has_ended()) http.close();
  });
  http.on_signal([&] { service.end_soon(); });
  ready(fmt::format("http://{}:{}", http.address(), http.port()));
  http.run();
  if (const auto loss = async.loss()) std::rethrow_exception(loss);
}

}  // namespace folio::infer::server
