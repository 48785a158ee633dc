// The server's routes: who may ask, what is asked, and where the answer comes from. What is in front of it, HTTP
// (serve_http.h) or a caller in this process (local_service.h), gives it a thread: every call comes from there, but
// after_step(). Bodies are read, and requests prepared (templates, tokens, forms), on another thread, in the order in
// which they come: that thread answers /health meanwhile.
#pragma once

#include <atomic>
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
#include "infer/server/log.h"
#include "infer/server/metrics.h"
#include "infer/server/reply_writer.h"
#include "infer/server/schema.h"
#include "infer/server/worker.h"

namespace folio::infer::server {

struct ServiceOptions {
  std::string api_key{};                       ///< empty: everybody may ask
  std::vector<std::string> allowed_hosts{};    ///< names of this server, beside the address that it listens on
  std::vector<std::string> allowed_origins{};  ///< of pages elsewhere that may ask, such as https://example.org
  size_t max_queue = 1024;                     ///< choices that run or wait
  uint64_t request_work = core::kDefaultWork;  ///< steps that preparing a request may take (core/work_budget.h)
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
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  /// Looks at all of a request but its body. False: the request was answered or refused. True: handle() must be called,
  /// with the body.
  [[nodiscard]] bool admit(const HttpRequest& request, const Reply& reply);
  void handle(HttpRequest request, const Reply& reply);
  /// Notes that a front refused what was not a request, and gives the body of the answer.
  [[nodiscard]] std::string refused(int status, std::string_view why);
  /// From the engine's thread.
  void after_step(Engine& engine);
  /// Ten times a second while there are requests: ends those that take too long.
  void look_at_clock();
  /// What runs has the grace to end, and nothing new begins. Called again: what runs is cut off.
  void end_soon();
  [[nodiscard]] bool has_ended() const;
  /// No request runs or waits.
  [[nodiscard]] bool idle() const { return completions_.empty() && preparing_.empty(); }
  /// Ends the threads that prepare requests and read adapters. Requests that are being prepared get no answer.
  void stop();

 private:
  using Clock = std::chrono::steady_clock;

  struct Route {
    RouteDescription description;
    void (Service::*handler)(HttpRequest& request, const Reply& reply);
  };

  /// What a prepared request does next, on the service's thread. May throw ApiError.
  using Next = std::function<void(const HttpRequest& request, const Reply& reply)>;
  /// Prepares a request of that body, on the worker's thread. May throw ApiError.
  using Prepare = std::function<Next(const std::string& body, const core::WorkBudget& budget)>;
  struct Preparing {
    HttpRequest request;  ///< without its body
    Reply reply;
    core::WorkBudget budget;
    Clock::time_point arrived;
  };

  [[nodiscard]] static const std::vector<Route>& routes();
  [[nodiscard]] static const Route* route_of(std::string_view path);
  [[nodiscard]] static std::string path_of(const HttpRequest& request);
  void check_who_asks(const HttpRequest& request, HttpReply& reply) const;
  bool route(const HttpRequest& request, const Reply& reply);
  /// Calls `work`, and answers with the error that it throws.
  void answer(const HttpRequest& request, HttpReply& reply, const std::function<void()>& work);
  void complete(HttpRequest& request, const Reply& reply);
  void load_adapter(HttpRequest& request, const Reply& reply);
  void unload_adapter(HttpRequest& request, const Reply& reply);
  void check_loading() const;
  void prepare(HttpRequest& request, const Reply& reply, Prepare work);
  void prepared(uint64_t id, const Next& next);
  void give_up(uint64_t id);
  void check_queue(size_t n_prompts, size_t n_each) const;
  void begin(CompletionRequest completion_request, const Reply& reply);
  void take_adapter_names();
  void tokenize(HttpRequest& request, const Reply& reply);
  void detokenize(HttpRequest& request, const Reply& reply);
  void send_page(HttpRequest& request, const Reply& reply);
  void send_health(HttpRequest& request, const Reply& reply);
  void send_metrics(HttpRequest& request, const Reply& reply);
  void send_description(HttpRequest& request, const Reply& reply);
  [[nodiscard]] Json model_json(const std::string& name) const;
  void send_models(HttpRequest& request, const Reply& reply);
  void send_model(HttpRequest& request, const Reply& reply);
  void refuse(const HttpRequest& request, HttpReply& reply, const ApiError& error);
  void send(const HttpRequest& request, HttpReply& reply, std::string_view media, const std::string& body);
  void send_pieces(const HttpRequest& request, const Reply& reply, TextSource body);
  void watch(HttpRequest& request, const Reply& reply);
  void show(const LiveView::Note& note);
  void done(const Completion& completion);
  void log(const std::string& text) const {
    if (log_) log_->line(text);
  }
  [[nodiscard]] uint64_t random_seed();

  AsyncEngine& engine_;
  ServedModel served_;
  std::shared_ptr<const ServedModel> snapshot_;  ///< of served_, made when its adapters change; the worker reads it
  ServiceOptions options_;
  Post post_;
  std::optional<Log> log_;
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
  std::atomic<size_t> n_choices_ = 0;  ///< of these; the worker reads it
  size_t n_logprob_bytes_ = 0;         ///< that these may hold
  std::map<uint64_t, Preparing> preparing_;
  uint64_t n_prepared_ = 0;
  std::map<const HttpReply*, Reply> watchers_;
  std::optional<Clock::time_point> end_;  ///< when it is to end: then what still runs is cut off
  Worker worker_;                         ///< the last member: it uses the others
};

}  // namespace folio::infer::server
