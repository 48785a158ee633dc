// serve: an OpenAI-compatible HTTP server for one model.
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>

#include "apps/program.h"
#include "apps/ranks.h"
#include "core/error.h"
#include "infer/forward/machine.h"
#include "infer/server/serve_http.h"

namespace {

using namespace folio;

struct Options {
  apps::ModelFlags model;
  std::string chat_template;
  std::string name;
  infer::server::HttpOptions http;
  infer::server::ServiceOptions service;
  size_t speculate = 0;
  size_t max_tool_calls = infer::server::kMostToolCalls;
  int64_t request_timeout = 600;
  int64_t write_timeout = 60;
  int64_t grace = 10;
};

size_t body_memory(const std::string& text, const infer::server::RequestLimits& limits) {
  const uint64_t bytes = apps::bytes_of("--body-memory", text);
  if (bytes >= limits.max_body) return bytes;
  throw core::UsageError(fmt::format("--body-memory: {}, expected at least {} bytes, the largest body",
                                     core::printable(text), limits.max_body));
}

void add_adapter_flags(apps::Flags& app, Options& o) {
  app.group("Adapters");
  app.add_list_function(
      "--adapter NAME=PATH[:SCALE]",
      [&adapters = o.service.adapters.adapters](const std::vector<std::string>& all) {
        for (const std::string& text : all) {
          const size_t equals = text.find('=');
          if (equals == std::string::npos || equals == 0) {
            throw core::UsageError(
                fmt::format("--adapter: \"{}\" has no name, expected NAME=PATH", core::printable(text)));
          }
          const core::AdapterPath adapter = apps::adapter_path("--adapter", text.substr(equals + 1));
          adapters.push_back({.name = text.substr(0, equals), .path = adapter.path, .scale = adapter.scale});
        }
      },
      "LoRA adapter (peft directory or GGUF) for requests with \"model\": NAME (repeatable)");
  app.add_option_function(
      "--adapter-memory SIZE",
      [&o](const std::string& text) { o.service.adapters.memory = apps::bytes_of("--adapter-memory", text); },
      "memory for adapters, such as 512M; unused ones are evicted and reloaded on demand (default: no limit)");
  app.add_option("--max-adapters", o.service.adapters.most, "maximum number of registered adapters")->in_range(1, 1e6);
  app.add_flag("--allow-adapter-loading", o.service.adapters.allow_loading,
               "let clients load adapters from local paths with /v1/load_lora_adapter");
}

void add_limit_flags(apps::Flags& app, Options& o) {
  app.group("Limits");
  app.add_option("--max-queue", o.service.max_queue,
                 "maximum number of running and waiting choices; further requests get status 429")
      ->in_range(1, 1e6);
  app.add_option("--max-tool-calls", o.max_tool_calls, "maximum number of tool calls per answer")->in_range(1, 1e6);
  app.add_option_function(
         "--body-memory SIZE",
         [&o](const std::string& text) { o.http.max_body_bytes = body_memory(text, o.http.limits); },
         "memory for request bodies until they are parsed; further requests get status 503")
      ->default_str("256M");
  app.add_option("--request-work", o.service.request_work,
                 "maximum work to prepare a request (template, tokenization, structured output), in internal steps")
      ->in_range(1, 1e15);
  app.add_option("--request-timeout S", o.request_timeout, "maximum duration of a request in seconds")
      ->in_range(1, 1e6);
  app.add_option("--write-timeout S", o.write_timeout,
                 "seconds until a client that does not read its answer is disconnected")
      ->in_range(1, 1e6);
  app.add_option("--grace S", o.grace, "seconds that running requests have to finish at shutdown")->in_range(0, 1e6);
  app.add_flag("--log-texts", o.service.log_texts, "also log the beginning of prompts and answers");
}

void add_flags(apps::Flags& app, Options& o) {
  o.model.load.limits = {.max_rows = 256, .max_sequences = 16};
  app.default_group("General");
  apps::add_model_flags(app, o.model);
  apps::add_rank_flags(app, o.model);
  app.group("Model");
  apps::add_tokenizer_flag(app, o.model.load.tokenizer);
  app.add_option("--chat-template NAME|FILE", o.chat_template,
                 "chat template: a name or a Jinja file (default: the model's)");
  apps::add_generation_config_flag(app, o.model.load);
  app.add_option("--name NAME", o.name, "model name in the API (default: from the model file)");
  app.add_option("-c,--context", o.model.load.context, "context size per sequence in tokens (default: the model's)")
      ->in_range(2, 1 << 24);
  app.group("HTTP server");
  app.add_option("--host ADDRESS", o.http.host, "address to listen on; 0.0.0.0: all interfaces");
  app.add_option("--port", o.http.port, "port to listen on; 0: any free port")->in_range(0, 65535);
  app.add_option("--api-key KEY", o.service.api_key,
                 "API key that clients must send, except for /health and the page (default: none)");
  app.add_option("--allowed-host NAME", o.service.allowed_hosts,
                 "additional host name that requests may address (repeatable)");
  app.add_option("--allowed-origin ORIGIN", o.service.allowed_origins,
                 "web origin allowed by CORS, such as https://example.org (repeatable)");
  app.group("Scheduling");
  app.add_option("--max-sequences", o.model.load.limits.max_sequences, "maximum number of running sequences")
      ->in_range(1, 4096);
  app.add_option("--max-batch-tokens", o.model.load.limits.max_rows,
                 "maximum number of tokens per step, for decoding and chunks of prompts")
      ->in_range(1, 1 << 16);
  app.add_option("--cache-tokens", o.model.load.cache_positions,
                 "KV cache size in tokens (default: --context times --max-sequences, at most 16384 or 4 contexts)")
      ->in_range(1, 1e9);
  app.group("Speculative decoding");
  app.add_option("--speculate", o.speculate,
                 "maximum draft tokens per sequence and step (see --draft); the output does not change; 0: off")
      ->in_range(0, 64);
  apps::add_draft_flags(app, o.model.load);
  add_adapter_flags(app, o);
  add_limit_flags(app, o);
}

// Raises the limit on open files to its maximum, because each connection needs a descriptor.
void raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  static_cast<void>(setrlimit(RLIMIT_NOFILE, &limit));
}

int run(const apps::Flags& app, Options& o) {
  infer::LoadOptions& load = o.model.load;
  infer::server::check_allowed(o.service);
  if (load.cache_positions == 0) load.cache_positions = infer::kForMany;
  apps::Ranks ranks(app, o.model);
  apps::complete_draft_source(o.speculate, o.model.load);
  infer::LoadedModel model = ranks.open(o.model);
  if (ranks.follow(model)) return 0;
  infer::server::ServedModel served{
      .name = o.name.empty() ? infer::server::model_name(model.file().path) : o.name,
      .context = model.context(),
      .tokenizer = model.tokenizer(),
      .chat_template = data::find_chat_template(model.tokenizer(), model.file().path, o.chat_template),
      .speculate = o.speculate,
      .max_tool_calls = o.max_tool_calls,
      .sampler = model.sampler_defaults(infer::SamplerOptions::of_requests()),
      .machine = model.machines().describe()};
  apps::print_sampler_defaults(model);
  apps::report_repacking(model);
  const std::string name = served.name;
  raise_descriptor_limit();
  std::signal(SIGPIPE, SIG_IGN);  // a client that disconnects must not end the server
  o.service.request_timeout = std::chrono::seconds(o.request_timeout);
  o.http.write_timeout = std::chrono::seconds(o.write_timeout);
  o.service.grace = std::chrono::seconds(o.grace);
  infer::server::serve_http(
      model.engine(), std::move(served), std::move(o.service), o.http,
      [&name](const std::string& address) {  // prints only the address on the first line, for scripts
        fmt::print("{}\nmodel: {}\n", address, core::printable(name, std::string::npos));
        apps::flush_stdout();
      },
      [&ranks] { return ranks.loss().has_value(); });
  if (const auto why = ranks.loss()) throw infer::MachineLost(*why);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  apps::Flags app("Serve a model with an OpenAI-compatible API and a web page.", "serve");
  // Makes stderr non-blocking, since writing to a full pipe or a stopped terminal must not block the server.
  if (const int fd = infer::server::reopen_non_blocking(STDERR_FILENO); fd >= 0) {
    dup2(fd, STDERR_FILENO);
    close(fd);
  }
  Options options;
  add_flags(app, options);
  return apps::run_program(app, argc, argv, [&] { return run(app, options); });
}
