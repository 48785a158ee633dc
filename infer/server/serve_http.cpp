#include "infer/server/serve_http.h"

#include <fmt/format.h>

#include <atomic>
#include <optional>
#include <utility>

namespace folio::infer::server {

void serve_http(Engine& engine, ServedModel served, ServiceOptions options, const HttpOptions& http_options,
                const std::function<void(const std::string&)>& ready, const std::function<bool()>& lost) {
  std::optional<Service> service;        // there when the first request comes
  std::atomic<Service*> made = nullptr;  // for the engine's thread, which loads adapters while it is made
  HttpServer http(
      http_options,
      [&](HttpRequest request, const Service::Reply& reply) { service->handle(std::move(request), reply); },
      [&](int status, std::string_view why) { return service->refused(status, why); });
  options.allowed_hosts.push_back(http.address());
  if (http_options.host != http.address()) options.allowed_hosts.push_back(http_options.host);
  options.allowed_hosts.emplace_back("localhost");
  AsyncEngine async(engine, [&](Engine& e) {
    if (Service* s = made) s->after_step(e);
  });
  service.emplace(async, std::move(served), std::move(options),
                  [&](std::function<void()> work) { http.post(std::move(work)); });
  made = &*service;
  bool was_lost = false;
  http.every(std::chrono::milliseconds(100), [&] {
    service->look_at_clock();
    if (lost && lost() && !std::exchange(was_lost, true)) service->end_soon();
    if (service->has_ended()) http.close();
  });
  http.on_signal([&] { service->end_soon(); });
  ready(fmt::format("http://{}:{}", http.address(), http.port()));
  http.run();
  service->stop();
}

}  // namespace folio::infer::server
