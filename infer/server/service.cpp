#include "infer/server/service.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <utility>

#include "core/error.h"
#include "core/json.h"
#include "core/number.h"
#include "core/random.h"

namespace folio::infer::server {

std::string_view page();  // the text of page.html, which is embedded in the program

namespace {

constexpr const char* kJson = "application/json";
constexpr const char* kText = "text/plain";
constexpr size_t kMaxLogged = 512;                      // maximum bytes of an error message in a log line
constexpr int kClientLeft = 499;                        // nginx's status for a client that disconnected
constexpr size_t kMostLogprobBytes = size_t{1} << 30U;  // limit for the log-probabilities of all answers

Json body_of(const std::string& text) {
  try {
    return core::parse_json(text, "the body");
  } catch (const core::Error& error) {
    throw ApiError(400, error.what());
  }
}

// Returns true if the strings are equal, in a time that doesn't depend on where they differ.
bool same_secret(std::string_view given, std::string_view secret) {
  unsigned difference = given.size() == secret.size() ? 0 : 1;
  for (size_t i = 0; i < given.size(); ++i) {
    difference |= static_cast<unsigned>(static_cast<uint8_t>(given[i]) ^
                                        static_cast<uint8_t>(secret[secret.empty() ? 0 : i % secret.size()]));
  }
  return difference == 0;
}

// Returns a Host header's name without the port: "[::1]" for "[::1]:8080".
std::string without_port(const std::string& host) {
  const size_t colon = host.rfind(':');
  const bool has_port = colon != std::string::npos && host.find(']', colon) == std::string::npos;
  return host.substr(0, has_port ? colon : std::string::npos);
}

// Returns true for an IP address. A name is less safe: anyone's DNS can resolve one to this server (DNS rebinding).
bool is_address(const std::string& host) {
  return !host.empty() && (host[0] == '[' || host.find_first_not_of("0123456789.") == std::string::npos);
}

bool contains(const std::vector<std::string>& all, const std::string& one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

// Decodes "a%2Fb" to "a/b". Invalid escapes are kept.
std::string percent_decoded(std::string_view text) {
  std::string to;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool may_be = text[i] == '%' && i + 2 < text.size();
    const auto byte = may_be ? core::number_of<uint8_t>(text.substr(i + 1, 2), 16) : std::nullopt;
    to += byte ? static_cast<char>(*byte) : text[i];
    if (byte) i += 2;
  }
  return to;
}

// Returns the beginning of a text as a JSON string, at least as much as fits in a log line.
std::string json_excerpt(std::string_view text) { return dump(std::string(text.substr(0, PIPE_BUF))); }

nlohmann::ordered_json quantiles_json(const Latencies& times) {
  const auto quantiles = times.quantiles();
  if (!quantiles) return nullptr;
  return {{"median", quantiles->median * 1e3}, {"p99", quantiles->p99 * 1e3}};
}

std::string random_name(std::mt19937_64& random) { return fmt::format("{:016x}{:016x}", random(), random()); }

}  // namespace

// Returns all routes of the server. Short handlers are lambdas, other handlers are member functions.
const std::vector<Service::Route>& Service::routes() {
  using Request = HttpRequest;
  static const std::vector<Route> all = {
      {{.path = "/", .summary = "Web interface.", .media = "text/html", .open = true}, &Service::send_page},
      {{.path = "/health", .summary = "Health check.", .open = true},
       [](Service& s, Request& r, const Reply& to) { s.send(r, to, literal("{\"status\":\"ok\"}\n")); }},
      {{.path = "/metrics", .summary = "Prometheus metrics.", .media = kText},
       [](Service& s, Request& r, const Reply& to) {
         ++s.metrics_.requests[{r.path, 200}];  // so that the metrics include this request
         to->send(200, "text/plain; version=0.0.4; charset=utf-8",
                  s.metrics_.text(s.engine_.statistics()) + s.adapters_.metrics());
       }},
      {{.path = "/openapi.json", .summary = "OpenAPI description of this API."},
       [](Service& s, Request& r, const Reply& to) {
         std::vector<RouteDescription> descriptions;
         for (const Route& route : routes()) descriptions.push_back(route.description);
         s.send(r, to, literal(openapi(descriptions, s.served_.sampler)));
       }},
      {{.path = "/engine",
        .summary = "Engine steps and sequences, as server-sent events.",
        .media = "text/event-stream"},
       &Service::watch},
      {{.path = "/v1/models", .summary = "List the served model and its adapters.", .answer = "Models"},
       &Service::send_models},
      {{.path = "/v1/models/{model}", .summary = "Retrieve a model or an adapter.", .answer = "Model"},
       [](Service& s, Request& r, const Reply& to) {
         const size_t n_prefix = route_of(r.path)->description.path.find('{');
         const std::string name = percent_decoded(std::string_view(r.path).substr(n_prefix));
         require_model(name, s.served_);
         s.send(r, to, literal(dump(s.model_json(name)) + "\n"));
       }},
      {{.path = "/v1/completions",
        .summary = "Create a completion.",
        .request = "CompletionRequest",
        .answer = "Completion",
        .streams = true},
       &Service::complete},
      {{.path = "/v1/chat/completions",
        .summary = "Create a chat completion.",
        .request = "ChatRequest",
        .answer = "ChatCompletion",
        .streams = true},
       &Service::complete},
      {{.path = "/v1/responses",
        .summary = "Create a response, as OpenAI's Responses API does; responses are not stored.",
        .request = "ResponseRequest",
        .answer = "Response",
        .streams = true},
       &Service::complete},
      {{.path = "/v1/load_lora_adapter",
        .summary = "Load a LoRA adapter, as in vLLM; requires --allow-adapter-loading.",
        .request = "LoadAdapterRequest",
        .media = kText},
       &Service::load_adapter},
      {{.path = "/v1/unload_lora_adapter",
        .summary = "Unload a LoRA adapter; requires --allow-adapter-loading.",
        .request = "UnloadAdapterRequest",
        .media = kText},
       &Service::unload_adapter},
      {{.path = "/tokenize",
        .summary = "Tokenize a text, or a conversation with its generation prompt.",
        .request = "TokenizeRequest",
        .answer = "Tokens"},
       &Service::tokenize},
      {{.path = "/detokenize", .summary = "Convert tokens to text.", .request = "DetokenizeRequest", .answer = "Text"},
       &Service::detokenize}};
  return all;
}

// Returns the route of a path, or null. A part in braces at the end of a route matches any text.
const Service::Route* Service::route_of(std::string_view path) {
  const auto found = std::ranges::find_if(routes(), [&](const Route& r) {
    const std::string_view known = r.description.path;
    if (!known.ends_with('}')) return known == path;
    const size_t n = known.find('{');
    return path.starts_with(known.substr(0, n)) && path.size() > n;
  });
  return found == routes().end() ? nullptr : &*found;
}

// Returns the path of a request's route, for metrics; empty if there is none.
std::string Service::path_of(const HttpRequest& request) {
  const Route* route = route_of(request.path);
  return route == nullptr ? "" : std::string(route->description.path);
}

Service::Service(AsyncEngine& engine, ServedModel served, ServiceOptions options, Post post)
    : engine_(engine),
      served_(std::move(served)),
      options_(std::move(options)),
      post_(std::move(post)),
      live_view_(
          std::make_shared<LiveView>([this](auto note) { post_([this, note = std::move(note)] { show(note); }); })),
      adapters_(engine, served_.name, options_.adapters, post_) {
  if (options_.log) log_.emplace(STDERR_FILENO);
  for (std::string& host : options_.allowed_hosts) host = lower_case(host);
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
    check_who_asks(request, *reply);
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
    refuse(request, reply, ApiError(500, error.what()));
  }
}

void Service::refuse(const HttpRequest& request, HttpReply& reply, const ApiError& error) {
  ++metrics_.requests[{path_of(request), error.status()}];
  log(fmt::format("{} {} {}: {}", core::printable(request.method), core::printable(request.path), error.status(),
                  core::printable(error.what(), kMaxLogged)));
  if (error.status() == 429) reply.add_header("Retry-After", "1");
  reply.send(error.status(), kJson, error_body(error));
}

// Checks the Host header and the API key. The Host header protects against pages of other sites, which can send
// requests through a visitor's browser and, with DNS rebinding, read the answers.
void Service::check_who_asks(const HttpRequest& request, HttpReply& reply) const {
  reply.add_header("X-Content-Type-Options", "nosniff");
  if (contains(options_.allowed_origins, request.origin)) {
    reply.add_header("Access-Control-Allow-Origin", request.origin);
    reply.add_header("Vary", "Origin");
  }
  const std::string host = lower_case(without_port(request.host));
  const bool everywhere = contains(options_.allowed_hosts, "0.0.0.0") || contains(options_.allowed_hosts, "[::]");
  if (!contains(options_.allowed_hosts, host) && !(everywhere && is_address(host))) {
    throw ApiError(403, fmt::format("the host {} is not allowed; start the server with --allowed-host NAME",
                                    core::printable(host)));
  }
  const Route* route = route_of(request.path);
  if (request.method == "OPTIONS" || (route != nullptr && route->description.open)) return;
  constexpr std::string_view kBearer = "Bearer ";
  const std::string& given = request.authorization;
  const bool bearer = given.starts_with(kBearer);
  if (options_.api_key.empty() || (bearer && same_secret(given.substr(kBearer.size()), options_.api_key))) return;
  reply.add_header("WWW-Authenticate", "Bearer");
  throw ApiError(401, "the API key is missing or wrong; send \"Authorization: Bearer KEY\"", "", "invalid_api_key");
}

// Answers OPTIONS and GET requests. Returns true for a POST request, which must be handled once its body was read.
bool Service::route(const HttpRequest& request, const Reply& reply) {
  const Route* route = route_of(request.path);
  if (route == nullptr)
    throw ApiError(404, fmt::format("there is no route {}; see /openapi.json", core::printable(request.path)));
  const bool posts = !route->description.request.empty();
  if (request.method == "OPTIONS") {
    reply->add_header("Allow", posts ? "POST, OPTIONS" : "GET, HEAD, OPTIONS");
    if (contains(options_.allowed_origins, request.origin)) {
      reply->add_header("Access-Control-Allow-Methods", "GET, POST");
      reply->add_header("Access-Control-Allow-Headers", "Authorization, Content-Type");
      reply->add_header("Access-Control-Max-Age", "600");
    }
    reply->send(204, "", "");
    return false;
  }
  if (request.method != (posts ? "POST" : "GET")) {
    reply->add_header("Allow", posts ? "POST, OPTIONS" : "GET, HEAD, OPTIONS");
    throw ApiError(405, fmt::format("{} only accepts {}", request.path, posts ? "POST" : "GET"));
  }
  if (posts) return true;
  HttpRequest whole = request;  // a GET request, so it has no body
  route->handler(*this, whole, reply);
  return false;
}

void Service::send(const HttpRequest& request, const Reply& reply, TextSource body, std::string_view media) {
  ++metrics_.requests[{path_of(request), 200}];
  reply->send(200, media, std::move(body));
}

Json Service::model_json(const std::string& name) const {
  return {{"id", name},
          {"object", "model"},
          {"created", 0},
          {"owned_by", "folio"},
          {"context_length", served_.context},
          {"vocab_size", served_.tokenizer.vocab_size()},
          {"chat", served_.chat_template.has_value()},
          {"parent", name == served_.name ? Json() : Json(served_.name)}};
}

void Service::send_models(HttpRequest& request, const Reply& reply) {
  send(request, reply,
       listed(
           "{\"object\":\"list\",\"data\":[", 1 + served_.adapters.size(),
           [model = model_json(served_.name), adapters = served_.adapters](size_t i, std::string& text) {
             Json one = model;
             if (i > 0) one.update({{"id", adapters[i - 1]}, {"parent", model["id"]}});
             text += dump(one);
           },
           "]}\n"));
}

// Parses the body and calls `work` on the worker's thread, so that a slow request delays only requests sent later.
void Service::prepare(HttpRequest& request, const Reply& reply, Prepare work) {
  const size_t n = preparing_.size();
  if (n >= options_.max_queue)
    throw ApiError(429, fmt::format("the queue is full: {} requests are being prepared; retry", n));
  const uint64_t id = ++n_prepared_;
  const core::WorkBudget budget(options_.request_work);
  std::string body = std::exchange(request.body, {});
  preparing_.emplace(id, Preparing{.request = request, .reply = reply, .budget = budget, .arrived = Clock::now()});
  reply->on_lost([this, id] { give_up(id); });
  worker_.post([this, id, body = std::move(body), budget, work = std::move(work)] {
    Next next;
    try {
      budget.spend(0);  // throws if the request was cancelled
      next = work(body_of(body), body, budget);
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
  ++metrics_.requests[{preparing.request.path, kClientLeft}];
  log(fmt::format("{} {} {}: the client disconnected before the request was read", preparing.request.method,
                  preparing.request.path, kClientLeft));
}

void Service::tokenize(HttpRequest& request, const Reply& reply) {
  prepare(request, reply,
          [this, served = snapshot_](const Json& body, const std::string&, const core::WorkBudget& budget) -> Next {
            const auto tokens = std::make_shared<const std::vector<int32_t>>(parse_tokenize(body, *served, budget));
            return [this, tokens, context = served->context](const HttpRequest& r, const Reply& to) {
              const size_t n = tokens->size();
              send(r, to,
                   listed(
                       fmt::format("{{\"count\":{},\"max_model_len\":{},\"tokens\":[", n, context), n,
                       [tokens](size_t i, std::string& text) { text += std::to_string((*tokens)[i]); }, "]}\n"));
            };
          });
}

void Service::detokenize(HttpRequest& request, const Reply& reply) {
  prepare(request, reply,
          [this, served = snapshot_](const Json& body, const std::string&, const core::WorkBudget&) -> Next {
            const auto tokens = parse_detokenize(body, *served);
            const auto text = std::make_shared<const std::string>(served->tokenizer.decode(tokens));
            return [this, text](const HttpRequest& r, const Reply& to) {
              send(r, to, joined({literal("{\"prompt\":\""), escaped(nullptr, text), literal("\"}\n")}));
            };
          });
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

void Service::complete(HttpRequest& request, const Reply& reply) {
  check_open(*reply);
  const auto parse = request.path == "/v1/chat/completions" ? parse_chat
                     : request.path == "/v1/responses"      ? parse_response
                                                            : parse_completion;
  const uint64_t seed = request.random_seed.value_or(random_seed());
  prepare(request, reply,
          [this, parse, seed, served = snapshot_](const Json& body, const std::string& text,
                                                  const core::WorkBudget& budget) -> Next {
            const ParseOptions options{.budget = budget,
                                       .admit = [this](size_t n, size_t each) { check_queue(n, each); }};
            const auto parsed = std::make_shared<CompletionRequest>(parse(body, *served, seed, text, options));
            return [this, parsed](const HttpRequest&, const Reply& to) { begin(std::move(*parsed), to); };
          });
}

void Service::begin(CompletionRequest completion_request, const Reply& reply) {
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
  const std::string id = std::string(completion_request.id_prefix) + random_name(random_);
  const auto completion = std::make_shared<Completion>(std::move(completion_request), served_, id, reply, metrics_);
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
  const std::string& model = completion.request().model;
  if (model == served_.name || contains(served_.adapters, model)) {  // don't count an adapter that was unloaded
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
  for (const ChoiceText& choice : completion.texts())
    log(fmt::format("{} answer: {}", completion.id(), json_excerpt(choice.whole_text())));
}

void Service::check_loading() const {
  if (!adapters_.allows_loading()) {
    throw ApiError(403, "loading adapters is disabled; start the server with --allow-adapter-loading");
  }
  if (end_) throw ApiError(503, "the server is shutting down");
}

// Handles /v1/load_lora_adapter, which accepts the same body as vLLM's route of this name.
void Service::load_adapter(HttpRequest& request, const Reply& reply) {
  check_loading();
  prepare(request, reply, [this](const Json& body, const std::string&, const core::WorkBudget&) -> Next {
    return [this, adapter = parse_load_adapter(body)](const HttpRequest& r, const Reply& to) {
      adapters_.add(adapter, [this, r, to, name = adapter.name](const std::optional<ApiError>& error) {
        if (error) return refuse(r, *to, *error);
        take_adapter_names();
        log(fmt::format("POST {} 200: {}", r.path, name));
        send(r, to, literal(fmt::format("Success: LoRA adapter '{}' added successfully.", name)), kText);
      });
    };
  });
}

void Service::unload_adapter(HttpRequest& request, const Reply& reply) {
  check_loading();
  prepare(request, reply, [this](const Json& body, const std::string&, const core::WorkBudget&) -> Next {
    return [this, name = parse_unload_adapter(body)](const HttpRequest& r, const Reply& to) {
      adapters_.remove(name);
      take_adapter_names();
      metrics_.models.erase(name);
      log(fmt::format("POST {} 200: {}", r.path, name));
      send(r, to, literal(fmt::format("Success: LoRA adapter '{}' removed successfully.", name)), kText);
    };
  });
}

// Sends the web page. The nonce in Content-Security-Policy allows only the page's own style and script.
void Service::send_page(HttpRequest& request, const Reply& reply) {
  const std::string nonce = random_name(random_);
  std::string text(page());
  constexpr std::string_view kFields = ">FIELDS<";
  text.replace(text.find(kFields), kFields.size(), ">" + page_fields(served_.sampler) + "<");
  for (const std::string element : {"<style", "<script"}) {
    const size_t at = text.find(element + ">");
    if (at != std::string::npos) text.insert(at + element.size(), fmt::format(" nonce=\"{}\"", nonce));
  }
  reply->add_header(
      "Content-Security-Policy",
      fmt::format("default-src 'none'; style-src 'nonce-{0}'; script-src 'nonce-{0}'; connect-src 'self'; "
                  "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
                  nonce));
  reply->add_header("Cache-Control", "no-store");
  reply->add_header("Referrer-Policy", "no-referrer");
  send(request, reply, literal(std::move(text)), "text/html; charset=utf-8");
}

void Service::watch(HttpRequest& request, const Reply& reply) {
  constexpr size_t kMostWatchers = 64;
  if (watchers_.size() >= kMostWatchers)
    throw ApiError(429, fmt::format("{} clients read /engine, the maximum; retry", watchers_.size()));
  if (end_) throw ApiError(503, "the server is shutting down");
  ++metrics_.requests[{"/engine", 200}];
  reply->add_header("Cache-Control", "no-cache");
  if (request.head_only) {
    reply->begin(200, "text/event-stream");
    return reply->end();
  }
  watchers_.emplace(reply.get(), reply);
  reply->on_lost([this, key = reply.get()] {
    watchers_.erase(key);
    if (watchers_.empty()) live_view_->end();
  });
  reply->begin(200, "text/event-stream");
  live_view_->begin(engine_);
}

void Service::show(nlohmann::ordered_json note) {
  note["first_token_ms"] = quantiles_json(metrics_.first_token);
  note["between_tokens_ms"] = quantiles_json(metrics_.between_tokens);
  const std::string event = "data: " + dump(note) + "\n\n";
  for (const auto& [key, reply] : watchers_) {
    if (reply->unsent() < kReplyWindow) reply->add(literal(event));  // skip the event for slow clients
  }
}

void Service::look_at_clock() {
  const auto now = Clock::now();
  const ApiError late(
      503, fmt::format("the request took longer than --request-timeout, {} s", options_.request_timeout.count()));
  const ApiError ends(503, "the server is shutting down");
  const auto all = completions_;
  for (const auto& [key, running] : all) {
    const auto& completion = running.completion;
    if (now > completion->arrived() + options_.request_timeout) completion->fail(late);
    if (end_ && now >= *end_) completion->fail(ends);
  }
  for (auto at = preparing_.begin(); at != preparing_.end();) {
    const bool is_late = now > at->second.arrived + options_.request_timeout;
    if (!is_late && !(end_ && now >= *end_)) {
      ++at;
      continue;
    }
    const Preparing preparing = std::move(at->second);
    at = preparing_.erase(at);
    preparing.budget.cancel();
    preparing.reply->add_header("Retry-After", "1");
    refuse(preparing.request, *preparing.reply, is_late ? late : ends);
  }
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

}  // namespace folio::infer::server
