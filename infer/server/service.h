// The server's routes: who may ask, what is asked, and where the answer comes from. All of it is on the thread of the
// HTTP server, but for what the engine's thread hands over.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "infer/engine/async_engine.h"
#include "infer/server/api.h"
#include "infer/server/completion.h"
#include "infer/server/http.h"
#include "infer/server/live_view.h"
#include "infer/server/metrics.h"
#include "infer/server/schema.h"

namespace folio::infer::server {

struct ServiceOptions {
  std::string api_key;                       ///< empty: everybody may ask
  std::vector<std::string> allowed_hosts;    ///< names of this server, beside the address that it listens on
  std::vector<std::string> allowed_origins;  ///< of pages elsewhere that may ask, such as https://example.org
  size_t max_queue = 1024;                   ///< choices that run or wait
  std::chrono::seconds request_timeout{600};
  std::chrono::seconds grace{10};  ///< for what runs, when the server is to end
  bool log_texts = false;
};

class Service {
 public:
  /// The engine has to outlive the service, and nobody else may use it while run() runs.
  Service(Engine& engine, ServedModel served, ServiceOptions options);

  /// Answers what comes until the process is told to end; see HttpServer::on_signal(). `ready` is called with the
  /// address when requests can come. Throws core::Error as HttpServer does.
  void run(const HttpOptions& http, const std::function<void(const std::string& address)>& ready);

 private:
  using Reply = std::shared_ptr<HttpReply>;
  using Clock = std::chrono::steady_clock;

  struct Route {
    RouteDescription description;
    void (Service::*handler)(const HttpRequest& request, const Reply& reply);
  };

  [[nodiscard]] static const std::vector<Route>& routes();
  [[nodiscard]] static const Route* route_of(std::string_view path);
  void handle(const HttpRequest& request, const Reply& reply);
  void check_who_asks(const HttpRequest& request, HttpReply& reply) const;
  void route(const HttpRequest& request, const Reply& reply);
  void complete(const HttpRequest& request, const Reply& reply);
  void tokenize(const HttpRequest& request, const Reply& reply);
  void detokenize(const HttpRequest& request, const Reply& reply);
  void send_page(const HttpRequest& request, const Reply& reply);
  void send_health(const HttpRequest& request, const Reply& reply);
  void send_metrics(const HttpRequest& request, const Reply& reply);
  void send_description(const HttpRequest& request, const Reply& reply);
  void send_models(const HttpRequest& request, const Reply& reply);
  void send(const HttpRequest& request, HttpReply& reply, std::string_view media, const std::string& body);
  void watch(const HttpRequest& request, const Reply& reply);
  void show(const LiveView::Note& note);
  void done(const Completion& completion);
  void look_at_clock();
  void signalled();
  [[nodiscard]] uint64_t random_seed();

  Engine& engine_;
  ServedModel served_;
  ServiceOptions options_;
  Metrics metrics_;
  ChoiceUpdates updates_;
  LiveView live_view_;
  std::mt19937_64 random_;
  std::map<const Completion*, std::shared_ptr<Completion>> completions_;
  size_t n_choices_ = 0;  ///< of these
  std::map<const HttpReply*, Reply> watchers_;
  HttpServer* http_ = nullptr;  ///< while run() runs
  AsyncEngine* async_ = nullptr;
  std::optional<Clock::time_point> end_;  ///< when it is to end: then what still runs is cut off
};

}  // namespace folio::infer::server
