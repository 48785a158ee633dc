// The server's routes and access checks. All functions of Service must be called on one thread, that of the HTTP server
// (serve_http.h) or of LocalService (local_service.h). A second thread, the worker, parses and prepares requests
// (templates, tokens, schemas) in order, while the first thread can still answer /health.
// A completion passes through admit() (access.cpp), its route (routes.cpp), the worker, begin() and Completion.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
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
#include "infer/server/log.h"
#include "infer/server/metrics.h"
#include "infer/server/schema.h"
#include "infer/server/worker.h"

namespace folio::infer::server {

struct ServiceOptions {
  std::string api_key{};                       ///< empty: no key is required
  std::vector<std::string> allowed_hosts{};    ///< accepted Host headers, in addition to the listening address
  std::vector<std::string> allowed_origins{};  ///< origins that may send requests, such as https://example.org
  size_t max_queue = 1024;                     ///< maximum number of choices that run or wait
  uint64_t request_work = core::kDefaultWork;  ///< step limit for preparing a request (core/work_budget.h)
  std::chrono::seconds request_timeout{600};
  std::chrono::seconds grace{10};  ///< time for running requests to end at shutdown
  bool log = true;                 ///< true: log a line on stderr for each completion and each refused request
  bool log_texts = false;
  AdapterOptions adapters{};
};

/// Throws core::UsageError if no request can match the API key or one of the allowed hosts or origins. Converts hosts
/// to the form that requests have: to lower case, and IPv6 addresses to brackets.
void check_allowed(ServiceOptions& options);

class Service {
 public:
  using Reply = std::shared_ptr<HttpReply>;
  /// Queues work for the service's thread, the one that calls admit() and handle().
  using Post = std::function<void(std::function<void()> work)>;

  /// `engine` must outlive all calls of this object, but be stopped before this object is destroyed. Throws core::Error
  /// if an adapter is invalid.
  Service(AsyncEngine& engine, ServedModel served, ServiceOptions options, Post post);
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  /// Checks a request except its body. Returns true if handle() must be called, false if the request was answered.
  [[nodiscard]] bool admit(const HttpRequest& request, const Reply& reply);
  void handle(HttpRequest request, const Reply& reply);
  /// Counts and logs a request that is not valid HTTP, and returns the body of its answer.
  [[nodiscard]] std::string refused(int status, std::string_view why);
  /// Cancels requests that exceed request_timeout or, at shutdown, the grace period. Must be called about ten times a
  /// second while there are requests.
  void check_timeouts();
  /// Stops accepting requests, and lets running requests continue for the grace period. A second call cancels them.
  void end_soon();
  [[nodiscard]] bool has_ended() const;
  /// Returns true if no request runs or waits.
  [[nodiscard]] bool idle() const { return completions_.empty() && preparing_.empty(); }
  /// Ends the threads that prepare requests and read adapters.
  void stop();

 private:
  using Clock = std::chrono::steady_clock;

  /// Continues a prepared request on the service's thread. May throw ApiError.
  using Next = std::function<void(const HttpRequest& request, const Reply& reply)>;
  /// The input of a handler that runs on the worker's thread.
  struct Posted {
    Json body{};
    std::string text;                   ///< the body's JSON text
    std::shared_ptr<void> text_memory;  ///< HttpRequest::body_memory
    std::shared_ptr<const ServedModel> served;
    uint64_t seed;  ///< seed for a request without one
    core::WorkBudget budget;
    Clock::time_point arrived;
  };
  /// Prepares a request from its body, given as JSON and as text, on the worker's thread. May throw ApiError.
  using Prepare = std::function<Next(Service& service, const Posted& posted)>;
  struct Route {
    RouteDescription description;
    std::function<void(Service& service, HttpRequest& request, const Reply& reply)> handler;
  };
  struct Preparing {
    HttpRequest request;  ///< without its body
    Reply reply;
    core::WorkBudget budget;
    Clock::time_point arrived;
  };

  struct Handlers;  // defined in routes.cpp
  [[nodiscard]] static const std::vector<Route>& routes();
  [[nodiscard]] static const Route* route_of(std::string_view path);
  [[nodiscard]] static std::string path_of(const HttpRequest& request);
  void check_access(const HttpRequest& request, HttpReply& reply) const;
  void send_options(const HttpRequest& request, HttpReply& reply, const char* methods);
  bool route(const HttpRequest& request, const Reply& reply);
  /// Calls `work`. If that throws, answers the request with the error.
  void answer(const HttpRequest& request, HttpReply& reply, const std::function<void()>& work);
  void check_open(HttpReply& reply) const;
  uint64_t keep(const HttpRequest& request, const Reply& reply, const Posted& posted);
  void prepare(HttpRequest& request, const Reply& reply, const Prepare& work);
  void prepared(uint64_t id, const Next& next);
  void give_up(uint64_t id);
  void check_queue(size_t n_prompts, size_t n_each) const;
  [[nodiscard]] Next complete(const Posted& posted, decltype(&parse_chat) parse);
  void begin(CompletionRequest completion_request, const Reply& reply, Clock::time_point arrived);
  void start(const std::shared_ptr<Completion>& completion, int32_t adapter);
  void has_events(std::shared_ptr<Completion> completion);
  void take_adapter_names();
  void refuse(const HttpRequest& request, HttpReply& reply, const ApiError& error);
  void send(const HttpRequest& request, const Reply& reply, TextSource body,
            std::string_view media = "application/json");
  void show(Ordered note);
  void done(const Completion& completion);
  void log(const std::string& text) const {
    if (log_) log_->line(text);
  }
  [[nodiscard]] uint64_t random_seed();
  [[nodiscard]] std::string random_name();

  AsyncEngine& engine_;
  ServedModel served_;
  std::shared_ptr<const ServedModel> snapshot_;  ///< copy of served_ for the worker, renewed when adapters change
  ServiceOptions options_;
  Post post_;
  std::optional<Log> log_;
  Metrics metrics_;
  std::shared_ptr<LiveView> live_view_;
  std::mt19937_64 random_;
  Adapters adapters_;
  struct Running {
    std::shared_ptr<Completion> completion;
    std::shared_ptr<Adapters::Use> adapter{};  ///< null: the request uses the model itself
  };
  std::map<const Completion*, Running> completions_;
  std::atomic<size_t> n_choices_ = 0;                     ///< choices in completions_; also read by the worker
  size_t n_logprob_bytes_ = 0;                            ///< maximum bytes of log-probabilities in completions_
  std::mutex mutex_;                                      ///< guards have_events_
  std::vector<std::shared_ptr<Completion>> have_events_;  ///< completions with new events; any thread may append
  std::map<uint64_t, Preparing> preparing_;  ///< requests that the worker prepares, or whose adapter is being loaded
  uint64_t n_prepared_ = 0;
  std::map<const HttpReply*, Reply> watchers_;
  std::optional<Clock::time_point> end_;  ///< time at which running requests are cancelled; set by end_soon()
  Worker worker_;                         ///< prepares requests; last, so that it ends before the other members
};

}  // namespace folio::infer::server
