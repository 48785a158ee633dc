#include "infer/server/service.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <utility>

#include "core/error.h"
#include "core/json.h"
#include "core/random.h"
#include "infer/server/assets.h"

namespace folio::infer::server {
namespace {

constexpr const char* kJson = "application/json";
constexpr const char* kText = "text/plain";
constexpr size_t kMostLogprobBytes = size_t{1} << 30U;  // that all answers together may hold

Json body_of(const std::string& text) {
  try {
    return core::parse_json(text, "the body");
  } catch (const core::Error& error) {
    throw ApiError(400, error.what());
  }
}

// In a time that does not depend on where they differ.
bool same_secret(std::string_view given, std::string_view secret) {
  unsigned difference = given.size() == secret.size() ? 0 : 1;
  for (size_t i = 0; i < given.size(); ++i) {
    difference |= static_cast<unsigned>(static_cast<uint8_t>(given[i]) ^
                                        static_cast<uint8_t>(secret[secret.empty() ? 0 : i % secret.size()]));
  }
  return difference == 0;
}

// "[::1]:8080" is "[::1]".
std::string without_port(const std::string& host) {
  const size_t colon = host.rfind(':');
  const bool has_port = colon != std::string::npos && host.find(']', colon) == std::string::npos;
  return host.substr(0, has_port ? colon : std::string::npos);
}

// An address, and no name that somebody else's name server could let point here.
bool is_address(const std::string& host) {
  return !host.empty() && (host[0] == '[' || host.find_first_not_of("0123456789.") == std::string::npos);
}

bool contains(const std::vector<std::string>& all, const std::string& one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

std::string random_name(std::mt19937_64& random) { return fmt::format("{:016x}{:016x}", random(), random()); }

}  // namespace

// All that is asked for, and who answers.
const std::vector<Service::Route>& Service::routes() {
  static const std::vector<Route> all = {
      {{.path = "/", .summary = "The page.", .media = "text/html", .open = true}, &Service::send_page},
      {{.path = "/health", .summary = "Whether the server is there.", .open = true}, &Service::send_health},
      {{.path = "/metrics", .summary = "What it counts, for Prometheus.", .media = "text/plain"},
       &Service::send_metrics},
      {{.path = "/openapi.json", .summary = "This description."}, &Service::send_description},
      {{.path = "/engine",
        .summary = "What the engine does, as events, while one listens.",
        .media = "text/event-stream"},
       &Service::watch},
      {{.path = "/v1/models", .summary = "The model that is served, and its adapters.", .answer = "Models"},
       &Service::send_models},
      {{.path = "/v1/completions",
        .summary = "How texts go on.",
        .request = "CompletionRequest",
        .answer = "Completion",
        .streams = true},
       &Service::complete},
      {{.path = "/v1/chat/completions",
        .summary = "The next answer of a conversation.",
        .request = "ChatRequest",
        .answer = "ChatCompletion",
        .streams = true},
       &Service::complete},
      {{.path = "/v1/load_lora_adapter",
        .summary = "Names an adapter, as vLLM's; with --allow-adapter-loading alone.",
        .request = "LoadAdapterRequest",
        .media = kText},
       &Service::load_adapter},
      {{.path = "/v1/unload_lora_adapter",
        .summary = "Takes the name away; with --allow-adapter-loading alone.",
        .request = "UnloadAdapterRequest",
        .media = kText},
       &Service::unload_adapter},
      {{.path = "/tokenize",
        .summary = "The tokens of a text, or of a conversation up to the next answer.",
        .request = "TokenizeRequest",
        .answer = "Tokens"},
       &Service::tokenize},
      {{.path = "/detokenize", .summary = "The text of tokens.", .request = "DetokenizeRequest", .answer = "Text"},
       &Service::detokenize}};
  return all;
}

const Service::Route* Service::route_of(std::string_view path) {
  const auto found = std::ranges::find_if(routes(), [&](const Route& r) { return r.description.path == path; });
  return found == routes().end() ? nullptr : &*found;
}

Service::Service(AsyncEngine& engine, ServedModel served, ServiceOptions options, Post post)
    : engine_(engine),
      served_(std::move(served)),
      options_(std::move(options)),
      post_(std::move(post)),
      adapters_(engine, served_.name, options_.adapters, post_) {
  served_.adapters = adapters_.names();
  if (served_.forms == nullptr) {
    served_.forms = std::make_shared<AnswerForms>(served_.tokenizer, served_.chat_template);
  }
  const uint64_t a = core::system_random();
  const uint64_t b = core::system_random();
  std::seed_seq seed{a, a >> 32U, b, b >> 32U};
  random_.seed(seed);
}

void Service::after_step(Engine& engine) {
  if (!updates_.empty()) {
    post_([all = std::make_shared<std::vector<ChoiceUpdate>>(updates_.take())] {
      for (ChoiceUpdate& one : *all) {
        const auto to = one.to;
        to->receive(std::move(one));
      }
    });
  }
  if (auto note = live_view_.after_step(engine)) post_([this, note = std::move(*note)] { show(note); });
}

std::string Service::refused(int status, std::string_view why) {
  ++metrics_.requests[{"", status}];
  log(fmt::format("{}: {}", status, why));
  return error_body(ApiError(status, std::string(why)));
}

// A line on stderr. It is dropped where it can't be written: a full disk or a pipe that nobody reads must not stop us.
void Service::log(const std::string& text) const {
  if (!options_.log) return;
  pollfd out{.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
  if (poll(&out, 1, 0) != 1 || (out.revents & POLLOUT) == 0) return;
  const std::string line = fmt::format("{:%Y-%m-%d %H:%M:%S} {}\n", fmt::localtime(std::time(nullptr)), text);
  static_cast<void>(!write(STDERR_FILENO, line.data(), line.size()));
}

void Service::handle(const HttpRequest& request, const Reply& reply) {
  try {
    check_who_asks(request, *reply);
    route(request, reply);
  } catch (const ApiError& error) {
    refuse(request, *reply, error);
  } catch (const std::exception& error) {
    refuse(request, *reply, ApiError(500, error.what()));
  }
}

void Service::refuse(const HttpRequest& request, HttpReply& reply, const ApiError& error) {
  ++metrics_.requests[{route_of(request.path) != nullptr ? request.path : "", error.status()}];
  log(fmt::format("{} {} {}: {}", request.method, core::printable(request.path), error.status(), error.what()));
  reply.send(error.status(), kJson, error_body(error));
}

// A page of another site can send requests here from a visitor's browser, and, if its name points here, read the
// answers: the Host header tells (DNS rebinding).
void Service::check_who_asks(const HttpRequest& request, HttpReply& reply) const {
  reply.add_header("X-Content-Type-Options", "nosniff");
  if (contains(options_.allowed_origins, request.origin)) {
    reply.add_header("Access-Control-Allow-Origin", request.origin);
    reply.add_header("Vary", "Origin");
  }
  const std::string host = without_port(request.host);
  const bool everywhere = contains(options_.allowed_hosts, "0.0.0.0") || contains(options_.allowed_hosts, "[::]");
  if (!contains(options_.allowed_hosts, host) && !(everywhere && is_address(host))) {
    throw ApiError(403, fmt::format("this server does not answer as host {}; --allowed-host NAME allows a name",
                                    core::printable(host)));
  }
  const Route* route = route_of(request.path);
  if (request.method == "OPTIONS" || (route != nullptr && route->description.open)) return;
  constexpr std::string_view kBearer = "Bearer ";
  const std::string& given = request.authorization;
  const bool bearer = given.starts_with(kBearer);
  if (options_.api_key.empty() || (bearer && same_secret(given.substr(kBearer.size()), options_.api_key))) return;
  reply.add_header("WWW-Authenticate", "Bearer");
  throw ApiError(401, "this server wants its API key, as \"Authorization: Bearer KEY\"", "", "invalid_api_key");
}

void Service::route(const HttpRequest& request, const Reply& reply) {
  const Route* route = route_of(request.path);
  if (route == nullptr) throw ApiError(404, fmt::format("there is no {}", core::printable(request.path)));
  const bool posts = !route->description.request.empty();
  if (request.method == "OPTIONS") {
    reply->add_header("Allow", posts ? "POST, OPTIONS" : "GET, HEAD, OPTIONS");
    if (contains(options_.allowed_origins, request.origin)) {
      reply->add_header("Access-Control-Allow-Methods", "GET, POST");
      reply->add_header("Access-Control-Allow-Headers", "Authorization, Content-Type");
      reply->add_header("Access-Control-Max-Age", "600");
    }
    return reply->send(204, "", "");
  }
  if (request.method != (posts ? "POST" : "GET")) {
    reply->add_header("Allow", posts ? "POST, OPTIONS" : "GET, HEAD, OPTIONS");
    throw ApiError(405, fmt::format("{} takes {}", request.path, posts ? "POST" : "GET"));
  }
  const std::string media_type = request.content_type.substr(0, request.content_type.find(';'));
  if (posts && media_type != kJson) {
    throw ApiError(415, fmt::format("send the header \"Content-Type: {}\"; it was {}", kJson,
                                    media_type.empty() ? "missing" : core::printable(media_type)));
  }
  (this->*route->handler)(request, reply);
}

void Service::send(const HttpRequest& request, HttpReply& reply, std::string_view media, const std::string& body) {
  ++metrics_.requests[{request.path, 200}];
  reply.send(200, std::string(media), body);
}

// An answer that may be long.
void Service::send_pieces(const HttpRequest& request, const Reply& reply, TextSource body) {
  ++metrics_.requests[{request.path, 200}];
  std::make_shared<ReplyWriter>(reply)->send(200, kJson, std::move(body));
}

void Service::send_health(const HttpRequest& request, const Reply& reply) {
  send(request, *reply, kJson, "{\"status\":\"ok\"}\n");
}

void Service::send_metrics(const HttpRequest& request, const Reply& reply) {
  ++metrics_.requests[{request.path, 200}];  // it counts itself
  reply->send(200, "text/plain; version=0.0.4; charset=utf-8",
              metrics_.text(engine_.statistics()) + adapters_.metrics());
}

void Service::send_description(const HttpRequest& request, const Reply& reply) {
  std::vector<RouteDescription> descriptions;
  for (const Route& route : routes()) descriptions.push_back(route.description);
  send(request, *reply, kJson, openapi(descriptions));
}

void Service::send_models(const HttpRequest& request, const Reply& reply) {
  const Json model = {{"id", served_.name},
                      {"object", "model"},
                      {"created", 0},
                      {"owned_by", "folio"},
                      {"context_length", served_.context},
                      {"vocab_size", served_.tokenizer.vocab_size()},
                      {"chat", served_.chat_template.has_value()},
                      {"parent", nullptr}};
  send_pieces(request, reply,
              listed(
                  "{\"object\":\"list\",\"data\":[", 1 + served_.adapters.size(),
                  [model, name = served_.name, adapters = served_.adapters](size_t i, std::string& text) {
                    Json one = model;
                    if (i > 0) one.update({{"id", adapters[i - 1]}, {"parent", name}});
                    text += dump(one);
                  },
                  "]}\n"));
}

void Service::tokenize(const HttpRequest& request, const Reply& reply) {
  auto tokens = parse_tokenize(body_of(request.body), served_);
  const size_t n = tokens.size();
  send_pieces(request, reply,
              listed(fmt::format("{{\"count\":{},\"max_model_len\":{},\"tokens\":[", n, served_.context), n,
                     [tokens = std::move(tokens)](size_t i, std::string& text) { text += std::to_string(tokens[i]); },
                     "]}\n"));
}

void Service::detokenize(const HttpRequest& request, const Reply& reply) {
  const auto tokens = parse_detokenize(body_of(request.body), served_);
  const auto text = std::make_shared<const std::string>(served_.tokenizer.decode(tokens));
  send_pieces(request, reply,
              joined({literal("{\"prompt\":\""), escaped(nullptr, text), literal("\"}\n")}));
}

void Service::complete(const HttpRequest& request, const Reply& reply) {
  const bool chat = request.path == "/v1/chat/completions";
  const Json body = body_of(request.body);
  CompletionRequest completion_request =
      (chat ? parse_chat : parse_completion)(body, served_, request.random_seed.value_or(random_seed()), request.body);
  const size_t n = completion_request.prompts.size() * static_cast<size_t>(completion_request.n_sequences());
  if (end_) {
    reply->add_header("Retry-After", "5");
    throw ApiError(503, "the server is about to end");
  }
  if (n > options_.max_queue) {
    throw ApiError(400,
                   fmt::format("{} choices never fit into a queue of {}; ask for fewer, or start the server with a "
                               "larger --max-queue",
                               n, options_.max_queue),
                   completion_request.n_sequences() > 1 ? "n" : "prompt");
  }
  if (n_choices_ + n > options_.max_queue) {
    reply->add_header("Retry-After", "1");
    throw ApiError(
        429, fmt::format("{} choices run or wait already; the queue has room for {}", n_choices_, options_.max_queue));
  }
  const size_t n_bytes = completion_request.n_logprob_bytes;
  if (n_logprob_bytes_ + n_bytes > kMostLogprobBytes) {
    reply->add_header("Retry-After", "1");
    throw ApiError(429, fmt::format("answers with log-probabilities of {} bytes are being made already; this one may "
                                    "become {} more, and {} are possible",
                                    n_logprob_bytes_, n_bytes, kMostLogprobBytes));
  }
  const auto completion =
      std::make_shared<Completion>(std::move(completion_request), served_,
                                   (chat ? "chatcmpl-" : "cmpl-") + random_name(random_), reply, updates_, metrics_);
  Running& running = completions_[completion.get()];
  running.completion = completion;
  n_choices_ += n;
  n_logprob_bytes_ += n_bytes;
  completion->expect([this](const Completion& c) { done(c); });
  const std::string& name = completion->request().model;
  if (name == served_.name) return completion->start(engine_, served_.adapter);
  running.adapter =
      adapters_.use(name, [this, weak = std::weak_ptr(completion)](int32_t number, const std::exception_ptr& error) {
        const auto waiting = weak.lock();
        if (waiting == nullptr) return;
        if (!error) return waiting->start(engine_, number);
        try {
          std::rethrow_exception(error);
        } catch (const ApiError& e) {
          waiting->fail(e);
        }
      });
  if (running.adapter->number() != kNoAdapter) completion->start(engine_, running.adapter->number());
}

void Service::done(const Completion& completion) {
  const auto self = completions_.extract(&completion);
  n_choices_ -= completion.n_sequences();
  n_logprob_bytes_ -= completion.request().n_logprob_bytes;
  metrics_.prompt_tokens += completion.usage().prompt_tokens;
  const std::string& model = completion.request().model;
  if (model == served_.name || contains(served_.adapters, model)) {  // those that are gone count no more
    ++metrics_.models[model].requests;
    metrics_.models[model].tokens += completion.usage().completion_tokens;
  }
  const char* path = completion.request().chat ? "/v1/chat/completions" : "/v1/completions";
  ++metrics_.requests[{path, completion.status()}];
  const std::chrono::duration<double> took = Clock::now() - completion.arrived();
  log(fmt::format("POST {} {} {} {}: {} + {} tokens, {} of them from the cache, {:.3f} s", path, completion.status(),
                  completion.id(), core::printable(model), completion.usage().prompt_tokens,
                  completion.usage().completion_tokens, completion.usage().cached_tokens, took.count()));
  if (!options_.log_texts) return;
  for (const Prompt& prompt : completion.request().prompts) {
    log(fmt::format("{} prompt: {}", completion.id(),
                    dump(completion.request().chat || prompt.came_as_ids ? served_.tokenizer.decode(prompt.tokens)
                                                                         : prompt.text)));
  }
  for (const ChoiceText& choice : completion.texts())
    log(fmt::format("{} answer: {}", completion.id(), dump(choice.whole_text())));
}

void Service::check_loading() const {
  if (!adapters_.allows_loading()) {
    throw ApiError(403, "clients may not load and unload adapters here; --allow-adapter-loading lets them");
  }
  if (end_) throw ApiError(503, "the server is about to end");
}

// Source: vLLM's routes of these names.
void Service::load_adapter(const HttpRequest& request, const Reply& reply) {
  check_loading();
  const NamedAdapter adapter = parse_load_adapter(body_of(request.body));
  adapters_.add(adapter, [this, request, reply, name = adapter.name](const std::optional<ApiError>& error) {
    if (error) return refuse(request, *reply, *error);
    served_.adapters = adapters_.names();
    log(fmt::format("POST {} 200: {}", request.path, name));
    send(request, *reply, kText, fmt::format("Success: LoRA adapter '{}' added successfully.", name));
  });
}

void Service::unload_adapter(const HttpRequest& request, const Reply& reply) {
  check_loading();
  const std::string name = parse_unload_adapter(body_of(request.body));
  adapters_.remove(name);
  served_.adapters = adapters_.names();
  metrics_.models.erase(name);
  log(fmt::format("POST {} 200: {}", request.path, name));
  send(request, *reply, kText, fmt::format("Success: LoRA adapter '{}' removed successfully.", name));
}

// The page's style and script are its own: a nonce lets them in, and nothing else.
void Service::send_page(const HttpRequest& request, const Reply& reply) {
  const std::string nonce = random_name(random_);
  std::string text(page());
  constexpr std::string_view kFields = ">FIELDS<";
  text.replace(text.find(kFields), kFields.size(), ">" + page_fields() + "<");
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
  send(request, *reply, "text/html; charset=utf-8", text);
}

void Service::watch(const HttpRequest& request, const Reply& reply) {
  constexpr size_t kMostWatchers = 64;
  if (watchers_.size() >= kMostWatchers) throw ApiError(429, fmt::format("{} watch already", watchers_.size()));
  if (end_) throw ApiError(503, "the server is about to end");
  ++metrics_.requests[{"/engine", 200}];
  reply->add_header("Cache-Control", "no-cache");
  if (request.head_only) {
    reply->begin(200, "text/event-stream");
    return reply->end();
  }
  watchers_.emplace(reply.get(), reply);
  reply->on_lost([this, key = reply.get()] {
    watchers_.erase(key);
    live_view_.set_watched(!watchers_.empty());
  });
  reply->begin(200, "text/event-stream");
  live_view_.set_watched(true);
  engine_.wake();
}

void Service::show(const LiveView::Note& note) {
  const std::string event = "data: " + LiveView::json(note, metrics_) + "\n\n";
  for (const auto& [key, reply] : watchers_) {
    if (reply->unsent() < kReplyWindow) reply->write(event);  // one that reads slowly sees fewer events
  }
}

void Service::look_at_clock() {
  const auto now = Clock::now();
  const auto all = completions_;
  for (const auto& [key, running] : all) {
    const auto& completion = running.completion;
    if (now > completion->arrived() + options_.request_timeout) {
      completion->fail(ApiError(503, fmt::format("this took longer than {} s", options_.request_timeout.count())));
    }
    if (end_ && now >= *end_) completion->fail(ApiError(503, "the server ends"));
  }
}

bool Service::has_ended() const {
  return end_ && (completions_.empty() || Clock::now() >= *end_ + std::chrono::seconds(2));
}

void Service::end_soon() {
  const auto now = Clock::now();
  if (end_) {
    end_ = now;
  } else {
    log(fmt::format("ends: {} requests have {} s", completions_.size(), options_.grace.count()));
    end_ = now + options_.grace;
  }
  for (const auto& [key, reply] : std::exchange(watchers_, {})) reply->end();
  live_view_.set_watched(false);
}

// Such that a client whose numbers are doubles gets it back unchanged.
uint64_t Service::random_seed() { return random_() >> 11U; }

}  // namespace folio::infer::server
