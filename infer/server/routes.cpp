// The table of the server's routes, and the handlers of all routes except completions (service.cpp).
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/number.h"
#include "core/version.h"
#include "infer/server/explain_request.h"
#include "infer/server/service.h"

namespace folio::infer::server {

std::string_view page();  // the text of page.html, which is embedded in the program

namespace {

constexpr const char* kText = "text/plain";

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

}  // namespace

// The handlers of the routes. Those that return Next run on the worker's thread.
struct Service::Handlers {
  static Json model_json(const Service& s, const std::string& name) {
    return {{"id", name},
            {"object", "model"},
            {"created", 0},
            {"owned_by", "folio"},
            {"context_length", s.served_.context},
            {"vocab_size", s.served_.tokenizer.vocab_size()},
            {"chat", s.served_.chat_template.has_value()},
            {"parent", name == s.served_.name ? Json() : Json(s.served_.name)}};
  }

  // Sends the fields of llama.cpp's /props, and a description of the machine, since rounding depends on the machine.
  static void send_props(Service& s, const HttpRequest& request, const Reply& reply) {
    const ServedModel& served = s.served_;
    const Json props{{"model_alias", served.name},
                     {"default_generation_settings", {{"n_ctx", served.context}}},
                     {"chat_template", served.chat_template ? Json(served.chat_template->source()) : Json()},
                     {"build_info", fmt::format("folio {}", core::version())},
                     {"machine", served.machine}};
    s.send(request, reply, literal(dump(props) + "\n"));
  }

  static void send_models(Service& s, const HttpRequest& request, const Reply& reply) {
    s.send(request, reply,
           listed(
               "{\"object\":\"list\",\"data\":[", 1 + s.served_.adapters.size(),
               [model = model_json(s, s.served_.name), adapters = s.served_.adapters](size_t i, std::string& text) {
                 Json one = model;
                 if (i > 0) one.update({{"id", adapters[i - 1]}, {"parent", model["id"]}});
                 text += dump(one);
               },
               "]}\n"));
  }

  static Next tokenize(Service& s, const Posted& posted) {
    const auto tokens =
        std::make_shared<const std::vector<int32_t>>(parse_tokenize(posted.body, *posted.served, posted.budget));
    return [&s, tokens, context = posted.served->context](const HttpRequest& request, const Reply& reply) {
      const size_t n = tokens->size();
      s.send(request, reply,
             listed(
                 fmt::format("{{\"count\":{},\"max_model_len\":{},\"tokens\":[", n, context), n,
                 [tokens](size_t i, std::string& text) { text += std::to_string((*tokens)[i]); }, "]}\n"));
    };
  }

  static Next detokenize(Service& s, const Posted& posted) {
    const auto tokens = parse_detokenize(posted.body, *posted.served);
    const auto text = std::make_shared<const std::string>(posted.served->tokenizer.decode(tokens));
    return [&s, text](const HttpRequest& request, const Reply& reply) {
      s.send(request, reply, joined({literal("{\"prompt\":\""), escaped(nullptr, text), literal("\"}\n")}));
    };
  }

  static void check_loading(const Service& s, HttpReply& reply) {
    if (!s.adapters_.allows_loading()) {
      throw ApiError(403, "loading adapters is disabled; start the server with --allow-adapter-loading");
    }
    s.check_open(reply);
  }

  // Handles /v1/load_lora_adapter, which accepts the same body as vLLM's route of this name.
  static Next load_adapter(Service& s, const Posted& posted) {
    return [&s, posted, adapter = parse_load_adapter(posted.body)](const HttpRequest& request, const Reply& reply) {
      const auto id = std::make_shared<uint64_t>();
      s.adapters_.add(adapter, [&s, id, name = adapter.name](const std::optional<ApiError>& error) {
        if (!error) s.take_adapter_names();
        const auto found = s.preparing_.extract(*id);
        if (found.empty()) return;  // it took too long, or the client has disconnected
        const Preparing& loading = found.mapped();
        if (error) return s.refuse(loading.request, *loading.reply, *error);
        send_adapters(s, loading.request, loading.reply, name, "added");
      });
      *id = s.keep(request, reply, posted);
    };
  }

  static Next unload_adapter(Service& s, const Posted& posted) {
    return [&s, name = parse_unload_adapter(posted.body)](const HttpRequest& request, const Reply& reply) {
      s.adapters_.remove(name);
      s.metrics_.models.erase(name);
      send_adapters(s, request, reply, name, "removed");
    };
  }

  // Updates the names of the adapters after one was added or removed, and answers the request.
  static void send_adapters(Service& s, const HttpRequest& request, const Reply& reply, const std::string& name,
                            const char* done) {
    s.take_adapter_names();
    s.log(fmt::format("POST {} 200: {}", request.path, name));
    s.send(request, reply, literal(fmt::format("Success: LoRA adapter '{}' {} successfully.", name, done)), kText);
  }

  static Next explain(Service& s, const Posted& posted) {
    auto made = explanation_of(posted.body, *posted.served, s.engine_, posted.budget);
    return [&s, text = infer::explain::to_text(std::move(made.json)) + "\n"](
               const HttpRequest& request, const Reply& reply) { s.send(request, reply, literal(text)); };
  }

  static void send_page(Service& s, const HttpRequest& request, const Reply& reply) {
    std::string text(page());
    constexpr std::string_view kFields = ">FIELDS<";
    text.replace(text.find(kFields), kFields.size(), ">" + page_fields(s.served_.sampler) + "<");
    send_html(s, request, reply, std::move(text));
  }

  // Sends a web page. The nonce in Content-Security-Policy allows only the page's own style and script.
  static void send_html(Service& s, const HttpRequest& request, const Reply& reply, std::string text) {
    const std::string nonce = s.random_name();
    for (const std::string element : {"<style", "<script"}) {
      const size_t at = text.find(element + ">");
      if (at != std::string::npos) text.insert(at + element.size(), fmt::format(" nonce=\"{}\"", nonce));
    }
    reply->add_header(
        "Content-Security-Policy",
        fmt::format("default-src 'none'; style-src 'nonce-{0}'; script-src 'nonce-{0}'; connect-src 'self'; "
                    "frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'",
                    nonce));
    reply->add_header("Cache-Control", "no-store");
    reply->add_header("Referrer-Policy", "no-referrer");
    s.send(request, reply, literal(std::move(text)), "text/html; charset=utf-8");
  }

  static void watch(Service& s, const HttpRequest& request, const Reply& reply) {
    constexpr size_t kMostWatchers = 64;
    if (s.watchers_.size() >= kMostWatchers)
      throw ApiError(429, fmt::format("{} clients read /engine, the maximum; retry", s.watchers_.size()));
    s.check_open(*reply);
    ++s.metrics_.requests[{"/engine", 200}];
    reply->add_header("Cache-Control", "no-cache");
    if (request.head_only) {
      reply->begin(200, "text/event-stream");
      return reply->end();
    }
    s.watchers_.emplace(reply.get(), reply);
    reply->on_lost([&s, key = reply.get()] {
      s.watchers_.erase(key);
      if (s.watchers_.empty()) s.live_view_->end();
    });
    reply->begin(200, "text/event-stream");
    s.live_view_->begin(s.engine_);
  }
};

// Returns all routes of the server. Short handlers are lambdas, others are functions of Handlers.
const std::vector<Service::Route>& Service::routes() {
  using Request = HttpRequest;
  // Returns a handler that parses the body and calls `work` on the worker's thread. `check` is called first; it throws
  // ApiError if the request can't be accepted now.
  const auto posted = [](const Prepare& work, const std::function<void(const Service& s, HttpReply& to)>& check = {}) {
    return [work, check](Service& s, Request& r, const Reply& to) {
      if (check) check(s, *to);
      s.prepare(r, to, work);
    };
  };
  const auto completion = [&](auto parse) {
    return posted([parse](Service& s, const Posted& p) { return s.complete(p, parse); }, &Service::check_open);
  };
  static const std::vector<Route> all = {
      {{.path = "/", .summary = "Web interface.", .media = "text/html", .open = true}, &Handlers::send_page},
      {{.path = "/explain", .summary = "Web page that explains next tokens.", .media = "text/html", .open = true},
       // Needs no API key: the page contains no data, and its script sends the key with requests to /v1/explain.
       [](Service& s, Request& r, const Reply& to) {
         Handlers::send_html(s, r, to, infer::explain::to_html({{"server", ""}}));
       }},
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
       &Handlers::watch},
      {{.path = "/props",
        .summary = "Properties of the server, as in llama.cpp, and of its machine.",
        .answer = "Props"},
       &Handlers::send_props},
      {{.path = "/v1/models", .summary = "List the served model and its adapters.", .answer = "Models"},
       &Handlers::send_models},
      {{.path = "/v1/models/{model}", .summary = "Retrieve a model or an adapter.", .answer = "Model"},
       [](Service& s, Request& r, const Reply& to) {
         const size_t n_prefix = route_of(r.path)->description.path.find('{');
         const std::string name = percent_decoded(std::string_view(r.path).substr(n_prefix));
         require_model(name, s.served_);
         s.send(r, to, literal(dump(Handlers::model_json(s, name)) + "\n"));
       }},
      {{.path = "/v1/completions",
        .summary = "Create a completion.",
        .request = "CompletionRequest",
        .answer = "Completion",
        .streams = true},
       completion(parse_completion)},
      {{.path = "/v1/chat/completions",
        .summary = "Create a chat completion.",
        .request = "ChatRequest",
        .answer = "ChatCompletion",
        .streams = true},
       completion(parse_chat)},
      {{.path = "/v1/responses",
        .summary = "Create a response, as OpenAI's Responses API does; responses are not stored.",
        .request = "ResponseRequest",
        .answer = "Response",
        .streams = true},
       completion(parse_response)},
      {{.path = "/v1/explain",
        .summary = "Explain how the model computes the next token of each position of a prompt.",
        .request = "ExplainRequest"},
       posted(&Handlers::explain, &Service::check_open)},
      {{.path = "/v1/load_lora_adapter",
        .summary = "Load a LoRA adapter, as in vLLM; requires --allow-adapter-loading.",
        .request = "LoadAdapterRequest",
        .media = kText},
       posted(&Handlers::load_adapter, &Handlers::check_loading)},
      {{.path = "/v1/unload_lora_adapter",
        .summary = "Unload a LoRA adapter; requires --allow-adapter-loading.",
        .request = "UnloadAdapterRequest",
        .media = kText},
       posted(&Handlers::unload_adapter, &Handlers::check_loading)},
      {{.path = "/tokenize",
        .summary = "Tokenize a text, or a conversation with its generation prompt.",
        .request = "TokenizeRequest",
        .answer = "Tokens"},
       posted(&Handlers::tokenize)},
      {{.path = "/detokenize", .summary = "Convert tokens to text.", .request = "DetokenizeRequest", .answer = "Text"},
       posted(&Handlers::detokenize)}};
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

std::string Service::path_of(const HttpRequest& request) {
  const Route* route = route_of(request.path);
  return route == nullptr ? "" : std::string(route->description.path);
}

void Service::show(Ordered note) {
  note["first_token_ms"] = metrics_.first_token.quantiles_ms();
  note["between_tokens_ms"] = metrics_.between_tokens.quantiles_ms();
  note["drafts"] = {{"tried", metrics_.drafts}, {"right", metrics_.drafts_right}};
  const std::string event = "data: " + dump(note) + "\n\n";
  for (const auto& [key, reply] : watchers_) {
    if (reply->unsent() < kReplyWindow) reply->add(literal(event));  // skip the event for slow clients
  }
}

}  // namespace folio::infer::server
