#include "infer/server/service.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <utility>

#include "core/error.h"
#include "core/file_status.h"
#include "core/json.h"
#include "core/random.h"
#include "infer/server/fields.h"

namespace folio::infer::server {
namespace {

constexpr const char* kJson = "application/json";
constexpr size_t kMaxLogged = 512;                      // maximum bytes of an error message in a log line
constexpr size_t kMostLogprobBytes = size_t{1} << 30U;  // limit for the log-probabilities of all running requests

// Returns the beginning of a text as a JSON string, at least as much as fits in a log line.
std::string json_excerpt(std::string_view text) { return dump(std::string(text.substr(0, PIPE_BUF))); }

}  // namespace

Service::Service(AsyncEngine& engine, ServedModel served, ServiceOptions options, Post post)
    : engine_(engine),
      served_(std::move(served)),
      options_(std::move(options)),
      post_(std::move(post)),
      live_view_(
          std::make_shared<LiveView>([this](auto note) { post_([this, note = std::move(note)] { show(note); }); })),
      adapters_(engine, served_.name, options_.adapters, post_) {
  if (options_.log) log_.emplace(STDERR_FILENO);
  check_allowed(options_);
  if (served_.forms == nullptr) {
    served_.forms = std::make_shared<AnswerForms>(served_.tokenizer, served_.chat_template);
  }
  take_adapter_names();
  const uint64_t a = core::system_random();
  const uint64_t b = core::system_random();
  std::seed_seq seed{a, a >> 32U, b, b >> 32U};
  random_.seed(seed);
}

Service::~Service() { stop(); }

void Service::stop() {
  for (const auto& [id, preparing] : preparing_) preparing.budget.cancel();
  worker_.stop();
  adapters_.stop();
}

void Service::take_adapter_names() {
  served_.adapters = adapters_.names();
  snapshot_ = std::make_shared<const ServedModel>(served_);
}

// Called when a completion has new events. Completions with events at the same time wake the service's thread only
// once, since waking it takes time on the engine's thread.
void Service::has_events(std::shared_ptr<Completion> completion) {
  const std::lock_guard lock(mutex_);
  have_events_.push_back(std::move(completion));
  if (have_events_.size() > 1) return;
  post_([this] {
    std::unique_lock reading(mutex_);
    const auto all = std::exchange(have_events_, {});
    reading.unlock();
    for (const auto& one : all) one->receive();
  });
}

void Service::start(const std::shared_ptr<Completion>& completion, int32_t adapter) {
  completion->start(engine_, adapter, [this, weak = std::weak_ptr(completion)] {
    if (auto one = weak.lock()) has_events(std::move(one));
  });
}

std::string Service::refused(int status, std::string_view why) {
  ++metrics_.requests[{"", status}];
  log(fmt::format("{}: {}", status, core::printable(why, kMaxLogged)));
  return error_body(ApiError(status, std::string(why)));
}

bool Service::admit(const HttpRequest& request, const Reply& reply) {
  bool needs_body = false;
  answer(request, *reply, [&] {
    check_access(request, *reply);
    needs_body = route(request, reply);
  });
  return needs_body;
}

void Service::handle(HttpRequest request, const Reply& reply) {
  answer(request, *reply, [&] {
    const std::string_view content_type = request.content_type;
    const std::string media_type = lower_case(trimmed(content_type.substr(0, content_type.find(';'))));
    if (media_type != kJson) {
      throw ApiError(415, fmt::format("the content type is {}; send \"Content-Type: {}\"",
                                      media_type.empty() ? "missing" : core::printable(media_type), kJson));
    }
    route_of(request.path)->handler(*this, request, reply);
  });
}

void Service::answer(const HttpRequest& request, HttpReply& reply, const std::function<void()>& work) {
  try {
    work();
  } catch (const ApiError& error) {
    refuse(request, reply, error);
  } catch (const std::exception& error) {
    refuse(request, reply, ApiError(500, core::describe(error)));
  }
}

void Service::refuse(const HttpRequest& request, HttpReply& reply, const ApiError& error) {
  ++metrics_.requests[{path_of(request), error.status()}];
  log(fmt::format("{} {} {}: {}", core::printable(request.method), core::printable(request.path), error.status(),
                  core::printable(error.what(), kMaxLogged)));
  if (error.status() == 429) reply.add_header("Retry-After", "1");
  reply.send(error.status(), kJson, error_body(error));
}

// Answers OPTIONS and GET requests. Returns true for a POST request, which must be handled once its body has been read.
bool Service::route(const HttpRequest& request, const Reply& reply) {
  const Route* route = route_of(request.path);
  if (route == nullptr)
    throw ApiError(404, fmt::format("there is no route {}; see /openapi.json", core::printable(request.path)));
  const bool posts = !route->description.request.empty();
  const char* methods = posts ? "POST, OPTIONS" : "GET, HEAD, OPTIONS";
  if (request.method == "OPTIONS") {
    send_options(request, *reply, methods);
    return false;
  }
  if (request.method != (posts ? "POST" : "GET")) {
    reply->add_header("Allow", methods);
    throw ApiError(405, fmt::format("{} only accepts {}", request.path, posts ? "POST" : "GET"));
  }
  if (posts) return true;
  HttpRequest whole = request;  // cheap to copy, since a GET request has no body
  route->handler(*this, whole, reply);
  return false;
}

void Service::send(const HttpRequest& request, const Reply& reply, TextSource body, std::string_view media) {
  ++metrics_.requests[{path_of(request), 200}];
  reply->send(200, media, std::move(body));
}

// Adds a request to preparing_ until it is answered or its client disconnects. Returns its key.
uint64_t Service::keep(const HttpRequest& request, const Reply& reply, const Posted& posted) {
  const uint64_t id = ++n_prepared_;
  preparing_.emplace(id,
                     Preparing{.request = request, .reply = reply, .budget = posted.budget, .arrived = posted.arrived});
  reply->on_lost([this, id] { give_up(id); });
  return id;
}

// Parses the body and calls `work` on the worker's thread, so that a slow request delays only the requests queued after
// it.
void Service::prepare(HttpRequest& request, const Reply& reply, const Prepare& work) {
  const size_t n = preparing_.size();
  if (n >= options_.max_queue)
    throw ApiError(429, fmt::format("the queue is full: {} requests are being prepared; retry", n));
  Posted posted{.text = std::exchange(request.body, {}),
                .text_memory = std::exchange(request.body_memory, {}),
                .served = snapshot_,
                .seed = request.random_seed.value_or(random_seed()),
                .budget = core::WorkBudget(options_.request_work),
                .arrived = Clock::now()};
  const uint64_t id = keep(request, reply, posted);
  worker_.post([this, id, work, posted = std::move(posted)]() mutable {
    Next next;
    try {
      posted.budget.spend(0);  // throws if the request was cancelled
      posted.body = made_for("", "", posted.budget, [&] { return core::parse_json(posted.text, "the body"); });
      next = work(*this, posted);
    } catch (const core::WorkCancelled&) {
      return;
    } catch (...) {
      next = [error = std::current_exception()](const HttpRequest&, const Reply&) { std::rethrow_exception(error); };
    }
    post_([this, id, next = std::move(next)] { prepared(id, next); });
  });
}

void Service::prepared(uint64_t id, const Next& next) {
  const auto found = preparing_.extract(id);
  if (found.empty()) return;  // the request was cancelled meanwhile
  const auto& [request, reply, budget, arrived] = found.mapped();
  answer(request, *reply, [&] { next(request, reply); });
}

// Cancels a request whose client has disconnected.
void Service::give_up(uint64_t id) {
  const auto found = preparing_.extract(id);
  if (found.empty()) return;
  const Preparing& preparing = found.mapped();
  preparing.budget.cancel();
  ++metrics_.requests[{preparing.request.path, kClientClosedRequest}];
  log(fmt::format("{} {} {}: the client disconnected before the answer", preparing.request.method,
                  preparing.request.path, kClientClosedRequest));
}

// Throws ApiError if the queue has no capacity for n_prompts * n_each choices. Can be called from any thread.
void Service::check_queue(size_t n_prompts, size_t n_each) const {
  const size_t n_choices = n_prompts * n_each;
  if (n_choices > options_.max_queue) {
    throw ApiError(
        400,
        fmt::format("the request has {} choices, but the queue only {}; request fewer, or start the server with a "
                    "larger --max-queue",
                    n_choices, options_.max_queue),
        n_each > 1 ? "n" : "prompt");
  }
  if (n_choices_ + n_choices > options_.max_queue) {
    throw ApiError(429, fmt::format("the queue is full: {} choices run or wait, of at most {}; retry",
                                    n_choices_.load(), options_.max_queue));
  }
}

void Service::check_open(HttpReply& reply) const {
  if (!end_) return;
  reply.add_header("Retry-After", "5");
  throw ApiError(503, "the server is shutting down");
}

Service::Next Service::complete(const Posted& posted, decltype(&parse_chat) parse) {
  const ParseOptions options{.budget = posted.budget, .admit = [this](size_t n, size_t each) { check_queue(n, each); }};
  const auto parsed =
      std::make_shared<CompletionRequest>(parse(posted.body, *posted.served, posted.seed, posted.text, options));
  return [this, parsed, arrived = posted.arrived](const HttpRequest&, const Reply& reply) {
    begin(std::move(*parsed), reply, arrived);
  };
}

void Service::begin(CompletionRequest completion_request, const Reply& reply, Clock::time_point arrived) {
  check_open(*reply);
  const auto n_each = static_cast<size_t>(completion_request.n_sequences());
  check_queue(completion_request.prompts.size(), n_each);
  require_model(completion_request.model, served_);  // an adapter may have been unloaded meanwhile
  const size_t n_bytes = completion_request.n_logprob_bytes;
  if (n_logprob_bytes_ + n_bytes > kMostLogprobBytes) {
    throw ApiError(429,
                   fmt::format("the memory for log-probabilities is full: {} bytes are in use and this request may "
                               "need {} more, of at most {}; retry",
                               n_logprob_bytes_, n_bytes, kMostLogprobBytes));
  }
  const std::string id = std::string(completion_request.id_prefix) + random_name();
  const auto completion = std::make_shared<Completion>(std::move(completion_request), served_, id, reply, metrics_,
                                                       arrived, options_.log_texts);
  Running& running = completions_[completion.get()];
  running.completion = completion;
  n_choices_ += completion->n_sequences();
  n_logprob_bytes_ += n_bytes;
  completion->expect([this](const Completion& c) { done(c); });
  const std::string& name = completion->request().model;
  if (name == served_.name) return start(completion, served_.adapter);
  running.adapter = adapters_.use(name, [this, weak = std::weak_ptr(completion)](int32_t number, const auto& error) {
    const auto waiting = weak.lock();
    if (waiting != nullptr) error ? waiting->fail(*error) : start(waiting, number);
  });
}

void Service::done(const Completion& completion) {
  const auto self = completions_.extract(&completion);
  n_choices_ -= completion.n_sequences();
  n_logprob_bytes_ -= completion.request().n_logprob_bytes;
  metrics_.prompt_tokens += completion.usage().prompt_tokens;
  metrics_.cached_tokens += completion.usage().cached_tokens;
  const std::string& model = completion.request().model;
  if (served_.has(model)) {  // don't count an adapter that was unloaded
    ++metrics_.models[model].requests;
    metrics_.models[model].tokens += completion.usage().completion_tokens;
  }
  const std::string path(completion.request().path);
  ++metrics_.requests[{path, completion.status()}];
  const std::chrono::duration<double> took = Clock::now() - completion.arrived();
  log(fmt::format("POST {} {} {} {}: {} + {} tokens, {} cached, {:.3f} s", path, completion.status(), completion.id(),
                  core::printable(model), completion.usage().prompt_tokens, completion.usage().completion_tokens,
                  completion.usage().cached_tokens, took.count()));
  if (!options_.log_texts) return;
  for (const Prompt& prompt : completion.request().prompts) {
    const bool chat = completion.request().chat;
    log(fmt::format("{} prompt: {}", completion.id(),
                    json_excerpt(chat || prompt.came_as_ids ? served_.tokenizer.decode(prompt.tokens) : prompt.text)));
  }
  for (const std::string& text : completion.texts())
    log(fmt::format("{} answer: {}", completion.id(), json_excerpt(text)));
}

void Service::check_timeouts() {
  const auto now = Clock::now();
  const auto error_of = [&](Clock::time_point arrived) -> std::optional<ApiError> {
    if (now > arrived + options_.request_timeout) {
      return ApiError(
          503, fmt::format("the request took longer than --request-timeout, {} s", options_.request_timeout.count()));
    }
    return end_ && now >= *end_ ? std::optional(ApiError(503, "the server is shutting down")) : std::nullopt;
  };
  const auto all = completions_;
  for (const auto& [key, running] : all) {
    if (const auto error = error_of(running.completion->arrived())) running.completion->fail(*error);
  }
  std::erase_if(preparing_, [&](const auto& entry) {
    const auto& [request, reply, budget, arrived] = entry.second;
    const auto error = error_of(arrived);
    if (!error) return false;
    budget.cancel();
    reply->add_header("Retry-After", "1");
    refuse(request, *reply, *error);
    return true;
  });
}

bool Service::has_ended() const { return end_ && (idle() || Clock::now() >= *end_ + std::chrono::seconds(2)); }

void Service::end_soon() {
  const auto now = Clock::now();
  if (end_) {
    end_ = now;
  } else {
    log(fmt::format("shutting down: {} requests have {} s to finish", completions_.size() + preparing_.size(),
                    options_.grace.count()));
    end_ = now + options_.grace;
  }
  for (const auto& [key, reply] : std::exchange(watchers_, {})) reply->end();
  live_view_->end();
}

// Returns a seed of 53 bits, so that clients that store numbers as doubles can send it back unchanged.
uint64_t Service::random_seed() { return random_() >> 11U; }

std::string Service::random_name() { return fmt::format("{:016x}{:016x}", random_(), random_()); }

}  // namespace folio::infer::server
