// The server's routes: who may ask, what is asked, and where the answer comes from. What is in front of it, HTTP
// (serve_http.h) or a caller in this process (local_service.h), gives it a thread: every call comes from there, but
// after_step().
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "infer/engine/async_engine.h"
#include "infer/server/adapters.h"
#include "infer/server/api.h"
#include "infer/server/completion.h"
#include "infer/server/http.h"
#include "infer/server/live_view.h"
#include "infer/server/metrics.h"
#include "infer/server/reply_writer.h"
#include "infer/server/schema.h"

namespace folio::infer::server {

struct ServiceOptions {
  std::string api_key{};                       ///< empty: everybody may ask
  std::vector<std::string> allowed_hosts{};    ///< names of this server, beside the address that it listens on
  std::vector<std::string> allowed_origins{};  ///< of pages elsewhere that may ask, such as https://example.org
  size_t max_queue = 1024;                     ///< choices that run or wait
  std::chrono::seconds request_timeout{600};
  std::chrono::seconds grace{10};  ///< for what runs, when the server is to end
  bool log = true;                 ///< a line on stderr for each request
  bool log_texts = false;
  AdapterOptions adapters{};
};

class Service {
 public:
  using Reply = std::shared_ptr<HttpReply>;
  /// Runs work on the service's thread, soon.
  using Post = std::function<void(std::function<void()> work)>;

  /// `engine` has to outlive the service's last call. Its after_step has to call the service's, until the engine has
  /// stopped; so the service is there before the first request and until then. Throws as Adapters does.
  Service(AsyncEngine& engine, ServedModel served, ServiceOptions options, Post post);

  void handle(const HttpRequest& request, const Reply& reply);
  /// Notes that a front refused what was no request, and gives the body of the answer.
  [[nodiscard]] std::string refused(int status, std::string_view why);
  /// From the engine's thread.
  void after_step(Engine& engine);
  /// Ten times a second while there are requests: ends those that take too long.
  void look_at_clock();
  /// What runs has the grace to end, and nothing new begins. Called again: what runs is cut off.
  void end_soon();
  [[nodiscard]] bool has_ended() const;
  /// No request runs or waits.
  [[nodiscard]] bool idle() const { return completions_.empty(); }

 private:
  using Clock = std::chrono::steady_clock;

  struct Route {
    RouteDescription description;
    void (Service::*handler)(const HttpRequest& request, const Reply& reply);
  };

  [[nodiscard]] static const std::vector<Route>& routes();
  [[nodiscard]] static const Route* route_of(std::string_view path);
  void check_who_asks(const HttpRequest& request, HttpReply& reply) const;
  void route(const HttpRequest& request, const Reply& reply);
  void complete(const HttpRequest& request, const Reply& reply);
  void load_adapter(const HttpRequest& request, const Reply& reply);
  void unload_adapter(const HttpRequest& request, const Reply& reply);
  void check_loading() const;
  void tokenize(const HttpRequest& request, const Reply& reply);
  void detokenize(const HttpRequest& request, const Reply& reply);
  void send_page(const HttpRequest& request, const Reply& reply);
  void send_health(const HttpRequest& request, const Reply& reply);
  void send_metrics(const HttpRequest& request, const Reply& reply);
  void send_description(const HttpRequest& request, const Reply& reply);
  void send_models(const HttpRequest& request, const Reply& reply);
  void refuse(const HttpRequest& request, HttpReply& reply, const ApiError& error);
  void send(const HttpRequest& request, HttpReply& reply, std::string_view media, const std::string& body);
  void send_pieces(const HttpRequest& request, const Reply& reply, TextSource body);
  void watch(const HttpRequest& request, const Reply& reply);
  void show(const LiveView::Note& note);
  void done(const Completion& completion);
  void log(const std::string& text) const;
  [[nodiscard]] uint64_t random_seed();

  AsyncEngine& engine_;
  ServedModel served_;
  ServiceOptions options_;
  Post post_;
  Metrics metrics_;
  ChoiceUpdates updates_;
  LiveView live_view_;
  std::mt19937_64 random_;
  Adapters adapters_;
  struct Running {
    std::shared_ptr<Completion> completion;
    std::shared_ptr<Adapters::Use> adapter{};  ///< none: it asks for the model itself
  };
  std::map<const Completion*, Running> completions_;
  size_t n_choices_ = 0;  ///< of these
  size_t n_logprob_bytes_ = 0;
  std::map<const HttpReply*, Reply> watchers_;
  std::optional<Clock::time_point> end_;  ///< when it is to end: then what still runs is cut off
};

}  // namespace folio::infer::server
