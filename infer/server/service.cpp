#include "infer/server/service.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <utility>

#include "core/error.h"
#include "core/json.h"
#include "core/random.h"
#include "infer/server/assets.h"

namespace folio::infer::server {
namespace {

constexpr const char* kJson = "application/json";
constexpr const char* kText = "text/plain";
constexpr size_t kMaxLogged = 512;  // bytes of a message in a log line

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

// The beginning of a text as JSON; a log line has no room for more.
std::string json_excerpt(std::string_view text) { return dump(std::string(text.substr(0, PIPE_BUF))); }

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
  if (options_.log) log_.emplace(STDERR_FILENO);
  for (std::string& host : options_.allowed_hosts) host = lower_case(host);
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

void Service::handle(const HttpRequest& request, const Reply& reply) {
  answer(request, *reply, [&] {
    const std::string_view content_type = request.content_type;
    const std::string media_type = lower_case(trimmed(content_type.substr(0, content_type.find(';'))));
    if (media_type != kJson) {
      throw ApiError(415, fmt::format("send the header \"Content-Type: {}\"; it was {}", kJson,
                                      media_type.empty() ? "missing" : core::printable(media_type)));
    }
    (this->*route_of(request.path)->handler)(request, reply);
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
  ++metrics_.requests[{route_of(request.path) != nullptr ? request.path : "", error.status()}];
  log(fmt::format("{} {} {}: {}", core::printable(request.method), core::printable(request.path), error.status(),
                  core::printable(error.what(), kMaxLogged)));
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
  const std::string host = lower_case(without_port(request.host));
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

// True: the route's handler needs the body. Else it was called, or the answer is known without it.
bool Service::route(const HttpRequest& request, const Reply& reply) {
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
    reply->send(204, "", "");
    return false;
  }
  if (request.method != (posts ? "POST" : "GET")) {
    reply->add_header("Allow", posts ? "POST, OPTIONS" : "GET, HEAD, OPTIONS");
    throw ApiError(405, fmt::format("{} takes {}", request.path, posts ? "POST" : "GET"));
  }
  if (!posts) {
    (this->*route->handler)(request, reply);
    return false;
  }
  return true;
}

void Service::send(const HttpRequest& request, HttpReply& reply, std::string_view media, const std::string& body) {
  ++metrics_.requests[{request.path, 200}];
  reply.send(200, std::string(media), body);
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
  Json all = Json::array({model});
  for (const std::string& name : served_.adapters) {
    all.push_back(model);
    all.back().update({{"id", name}, {"parent", served_.name}});
  }
  send(request, *reply, kJson, dump({{"object", "list"}, {"data", all}}) + "\n");
}

void Service::tokenize(const HttpRequest& request, const Reply& reply) {
  const auto tokens = parse_tokenize(body_of(request.body), served_);
  send(request, *reply, kJson,
       dump({{"count", tokens.size()}, {"max_model_len", served_.context}, {"tokens", tokens}}) + "\n");
}

void Service::detokenize(const HttpRequest& request, const Reply& reply) {
  const auto tokens = parse_detokenize(body_of(request.body), served_);
  send(request, *reply, kJson, dump({{"prompt", served_.tokenizer.decode(tokens)}}) + "\n");
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
  const auto completion =
      std::make_shared<Completion>(std::move(completion_request), served_,
                                   (chat ? "chatcmpl-" : "cmpl-") + random_name(random_), reply, updates_, metrics_);
  Running& running = completions_[completion.get()];
  running.completion = completion;
  n_choices_ += n;
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
    const bool chat = completion.request().chat;
    log(fmt::format("{} prompt: {}", completion.id(),
                    json_excerpt(chat ? served_.tokenizer.decode(prompt.tokens) : prompt.text)));
  }
  for (const ChoiceText& choice : completion.texts())
    log(fmt::format("{} answer: {}", completion.id(), json_excerpt(choice.text)));
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
  const HttpRequest line{.method = request.method, .path = request.path};  // without the body, which may be large
  adapters_.add(adapter, [this, request = line, reply, name = adapter.name](const std::optional<ApiError>& error) {
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
  const auto all = watchers_;  // one that does not read is lost meanwhile
  for (const auto& [key, reply] : all) reply->write(event);
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
