// serve: a model for many users, over HTTP.
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>

#include "apps/program.h"
#include "apps/ranks.h"
#include "core/error.h"
#include "infer/server/serve_http.h"

namespace {

using namespace folio;

struct Options {
  apps::ModelFlags model;
  size_t n_stages = 1;
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
  throw core::UsageError(fmt::format("--body-memory: {} is less than one body may have, {} bytes",
                                     core::printable(text), limits.max_body));
}

void add_flags(apps::Flags& app, Options& o) {
  o.model.load.limits = {.max_rows = 256, .max_sequences = 16};
  apps::add_model_flags(app, o.model);
  apps::add_rank_flags(app, o.n_stages);
  apps::add_tokenizer_flag(app, o.model.load.tokenizer);
  app.add_option("--chat-template", o.chat_template,
                 "a name or a file with a Jinja template (default: the model's own)");
  apps::add_generation_config_flag(app, o.model.load);
  app.add_option("--name", o.name, "what the model is called (default: after its file)");
  app.add_option("-c,--context", o.model.load.context, "positions of one sequence (default: the model's context)")
      ->check(apps::in_range(2, 1 << 24));
  app.add_option("--host", o.http.host, "the address to listen on; 0.0.0.0: all")->capture_default_str();
  app.add_option("--port", o.http.port, "0: a free one")->check(apps::in_range(0, 65535))->capture_default_str();
  app.add_option("--api-key", o.service.api_key, "ask for this key, but for /health and the page's own file");
  app.add_option("--allowed-host", o.service.allowed_hosts, "a name of this server; repeatable")->one_value();
  app.add_option("--allowed-origin", o.service.allowed_origins,
                 "where another page that may ask lies, such as https://example.org; repeatable")
      ->one_value();
  app.add_option("--max-sequences", o.model.load.limits.max_sequences, "sequences that run at once")
      ->check(apps::in_range(1, 4096))
      ->capture_default_str();
  app.add_option("--max-batch-tokens", o.model.load.limits.max_rows,
                 "rows of a step: of the running, and chunks of prompts")
      ->check(apps::in_range(1, 1 << 16))
      ->capture_default_str();
  app.add_option(
         "--cache-tokens", o.model.load.cache_positions,
         "positions of the KV cache (default: a context for each sequence, but at most 16,384, or four contexts)")
      ->check(apps::in_range(1, 1e9));
  app.add_option("--speculate", o.speculate, "try up to N tokens of each text at once; no text changes")
      ->check(apps::in_range(0, 64))
      ->capture_default_str();
  apps::add_draft_flag(app, o.model.load.draft_model);
  app.add_list_function(
         "--adapter",
         [&adapters = o.service.adapters.adapters](const std::vector<std::string>& all) {
           for (const std::string& text : all) {
             const size_t equals = text.find('=');
             if (equals == std::string::npos || equals == 0) {
               throw core::UsageError(
                   fmt::format("--adapter: \"{}\" has no name; write NAME=PATH", core::printable(text)));
             }
             const core::AdapterPath adapter = apps::adapter_path("--adapter", text.substr(equals + 1));
             adapters.push_back({.name = text.substr(0, equals), .path = adapter.path, .scale = adapter.scale});
           }
         },
         "a low-rank adapter, as peft saves it or as a GGUF, for requests whose \"model\" is NAME; repeatable")
      ->type_name("NAME=PATH[:SCALE]")
      ->one_value();
  app.add_option_function(
      "--adapter-memory",
      [&o](const std::string& text) { o.service.adapters.memory = apps::bytes_of("--adapter-memory", text); },
      "bytes of adapters in memory, such as 512M; those that nobody uses are read again (default: no limit)");
  app.add_option("--max-adapters", o.service.adapters.most, "adapters that may be there at once")
      ->check(apps::in_range(1, 1e6))
      ->capture_default_str();
  app.add_flag("--allow-adapter-loading", o.service.adapters.allow_loading,
               "let clients name directories of this machine as adapters, at /v1/load_lora_adapter");
  app.add_option("--max-queue", o.service.max_queue, "choices that run or wait; more are told to come back")
      ->check(apps::in_range(1, 1e6))
      ->capture_default_str();
  app.add_option("--max-tool-calls", o.max_tool_calls, "calls of tools in an answer, which ends with the last of them")
      ->check(apps::in_range(1, 1e6))
      ->capture_default_str();
  app.add_option_function(
         "--body-memory", [&o](const std::string& text) { o.http.max_body_bytes = body_memory(text, o.http.limits); },
         "bytes of request bodies in memory while they are read; beyond that requests get a 503")
      ->default_str("256M");
  app.add_option("--request-work", o.service.request_work,
                 "steps of work that a request may need before it runs: for its template, its tokens and its form")
      ->check(apps::in_range(1, 1e15))
      ->capture_default_str();
  app.add_option("--request-timeout", o.request_timeout, "seconds that a request may take")
      ->check(apps::in_range(1, 1e6))
      ->capture_default_str();
  app.add_option("--write-timeout", o.write_timeout,
                 "seconds without a byte read of its answer after which a client is dropped")
      ->check(apps::in_range(1, 1e6))
      ->capture_default_str();
  app.add_option("--grace", o.grace, "seconds that running requests have at the end")
      ->check(apps::in_range(0, 1e6))
      ->capture_default_str();
  app.add_flag("--log-texts", o.service.log_texts, "log the beginning of prompts and answers, too");
}

// Each connection is a descriptor.
void raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  static_cast<void>(setrlimit(RLIMIT_NOFILE, &limit));
}

std::optional<data::ChatTemplate> chat_template_of(const apps::Flags& app, const Options& o,
                                                   const infer::LoadedModel& model) {
  if (app.count("--chat-template") > 0) return data::chat_template_named(o.chat_template, &model.tokenizer());
  if (model.tokenizer().chat_template().empty()) return std::nullopt;
  return data::chat_template_of(model.tokenizer(), model.file().path);
}

int run(const apps::Flags& app, Options& o) {
  infer::LoadOptions& load = o.model.load;
  if (load.cache_positions == 0) load.cache_positions = infer::kForMany;
  apps::Ranks ranks(app, o.model, o.n_stages);
  infer::LoadedModel model = apps::open_model(o.model);
  if (ranks.follow(model)) return 0;
  infer::server::ServedModel served{.name = o.name.empty() ? infer::server::model_name(model.file().path) : o.name,
                                    .context = model.context(),
                                    .tokenizer = model.tokenizer(),
                                    .chat_template = chat_template_of(app, o, model),
                                    .speculate = o.speculate,
                                    .max_tool_calls = o.max_tool_calls,
                                    .sampler = model.sampler_defaults(infer::SamplerOptions::of_requests())};
  apps::print_sampler_defaults(model);
  apps::report_repacking(model);
  const std::string name = served.name;
  raise_descriptor_limit();
  std::signal(SIGPIPE, SIG_IGN);  // a client that goes away is no reason to end
  o.service.request_timeout = std::chrono::seconds(o.request_timeout);
  o.http.write_timeout = std::chrono::seconds(o.write_timeout);
  o.service.grace = std::chrono::seconds(o.grace);
  infer::server::serve_http(
      model.engine(), std::move(served), std::move(o.service), o.http,
      [&name](const std::string& address) {  // the first line is the address alone: scripts read it
        fmt::print("{}\nmodel: {}\n", address, core::printable(name, std::string::npos));
        apps::flush_stdout();
      },
      [&ranks] { return ranks.lost(); });
  ranks.check();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  apps::Flags app("Serves a model to many users, as OpenAI's API, with a page.", "serve");
  // A pipe that is not read, or a stopped terminal, must not stop the server, whatever is written.
  if (const int fd = infer::server::reopen_non_blocking(STDERR_FILENO); fd >= 0) {
    dup2(fd, STDERR_FILENO);
    close(fd);
  }
  Options options;
  add_flags(app, options);
  return apps::run_program(app, argc, argv, [&] { return run(app, options); });
}
