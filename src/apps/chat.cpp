// chat: a conversation with a model that was trained for it. Answers go to stdout, all else to stderr.
#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <optional>

#include "apps/text_program.h"
#include "core/error.h"
#include "core/file_io.h"
#include "core/print_stderr.h"
#include "infer/engine/conversation.h"

namespace {

using namespace folio;

constexpr const char* kHelp =
    "  /reset       forget all but the system message\n"
    "  /save FILE   write the messages to FILE, as a JSON list of {\"role\", \"content\"}\n"
    "  /help        these lines\n"
    "Ctrl-C stops an answer, or ends the program where there is none; Ctrl-D ends it.\n";

struct Options {
  apps::ModelFlags model;
  std::string chat_template;
  std::string system;
  std::string prompt;
  bool json = false;
  infer::GenerateOptions generate;
};

void add_flags(apps::Flags& app, Options& o) {
  apps::add_model_flags(app, o.model);
  apps::add_tokenizer_flag(app, o.model.load.tokenizer);
  app.add_option("--system", o.system, "the system message (default: the chat template's own, if it has one)");
  app.add_option("-p,--prompt", o.prompt, "one turn: say this, print the answer, end");
  std::string names;
  for (const std::string& name : data::chat_template_names()) names += (names.empty() ? "" : ", ") + name;
  app.add_option("--chat-template", o.chat_template,
                 names + ", or a file with a Jinja template (default: the model's own)");
  app.add_option("-n,--max-tokens", o.generate.max_tokens,
                 "tokens of an answer (default: what the context has room for)")
      ->check(apps::in_range(1, 1e9));
  apps::add_generation_flags(app, o.generate);
  apps::add_generation_config_flag(app, o.model.load);
  apps::add_draft_flag(app, o.model.load.draft_model);
  apps::add_lora_flag(app, o.model.load);
  app.add_flag("--json", o.json, "with --prompt: one JSON object on stdout, and nothing else");
}

// What a turn cost, for people.
void print_costs(const infer::Answer& answer, uint64_t seed) {
  const size_t computed = answer.prompt_tokens.size() - answer.result.n_cached;
  const size_t n = answer.result.tokens.size();
  const auto speeds = apps::speeds_json(computed, n == 0 ? 0 : n - 1, answer.result);
  core::print_stderr("[{} new tokens, {} from the cache; {} generated, {:.0f} tokens/s, finish_reason {}, seed {}]\n",
                     computed, answer.result.n_cached, n, speeds["decode_tokens_per_s"].get<double>(),
                     infer::finish_reason_name(answer.result.finish_reason), seed);
}

infer::Answer take_turn(infer::Conversation& conversation, const Options& o, std::string text) {
  apps::watch_signals();
  infer::Answer answer =
      conversation.say(std::move(text), o.generate, o.json ? std::function<void(std::string_view)>() : apps::print_text,
                       apps::interrupted);
  if (o.json) {
    const size_t n = answer.result.tokens.size();
    auto json = apps::result_json(answer.prompt_tokens, answer.result);
    json.update(
        apps::speeds_json(answer.prompt_tokens.size() - answer.result.n_cached, n == 0 ? 0 : n - 1, answer.result));
    json["seed"] = o.generate.sampler.seed;
    apps::print_json(json);
  } else {
    apps::print_text("\n");
    print_costs(answer, o.generate.sampler.seed);
  }
  return answer;
}

void save(const infer::Conversation& conversation, const std::string& file) {
  core::require(!file.empty(), "/save needs the name of a file");
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const data::ChatMessage& m : conversation.messages()) {
    json.push_back({{"role", data::chat_role_name(m.role)}, {"content", m.content}});
  }
  core::write_file_atomically(file, json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  core::print_stderr("{}: {} messages\n", file, json.size());
}

void obey(infer::Conversation& conversation, const std::string& line) {
  const std::string command = line.substr(0, line.find(' '));
  const size_t argument = line.find_first_not_of(' ', command.size());
  if (command == "/reset") {
    conversation.reset();
  } else if (command == "/save") {
    save(conversation, argument == std::string::npos ? "" : line.substr(argument));
  } else if (command == "/help") {
    core::print_stderr("{}", kHelp);
  } else {
    core::fail("there is no command {}; /help lists them", core::printable(command));
  }
}

// The next line of stdin, of at most a megabyte. False at its end.
bool next_line(std::string& line) {
  constexpr size_t kMost = size_t{1} << 20U;
  line.clear();
  int c = 0;
  while ((c = std::getchar()) != EOF && c != '\n') {
    line += static_cast<char>(c);
    core::require(line.size() <= kMost, "stdin: a line has more than {} bytes; split it", kMost);
  }
  return c != EOF || !line.empty();
}

// A SIGTERM or SIGHUP, which end the program even where they stop an answer.
bool told_to_end() { return apps::interrupted() && apps::interrupted_code() != 128 + SIGINT; }

// A line is a turn. A person is told of an error and goes on; where the lines come from a file, it ends the program.
int converse(infer::Conversation& conversation, const Options& o) {
  const bool person = isatty(STDIN_FILENO) != 0;
  if (person) core::print_stderr("{}", kHelp);
  for (std::string line;;) {
    apps::end_on_signals();
    if (person) core::print_stderr("> ");
    if (!next_line(line)) break;
    if (line.empty()) continue;
    try {
      if (line[0] == '/') {
        obey(conversation, line);
      } else {
        take_turn(conversation, o, line);
        if (told_to_end()) return apps::interrupted_code();
      }
    } catch (const core::Error& error) {
      if (!person) throw;
      core::print_stderr("{}\n", error.what());
    }
  }
  if (person) core::print_stderr("\n");
  return 0;
}

int run(const apps::Flags& app, Options& o) {
  const bool one_shot = app.count("--prompt") > 0;
  if (one_shot && o.prompt.empty()) throw core::UsageError("--prompt: the text is empty");
  if (o.json && !one_shot) throw core::UsageError("--json is for one turn; add --prompt TEXT");
  apps::complete_generation_options(app, o.generate);
  o.model.load.context = o.generate.context;
  infer::LoadedModel model = apps::open_model(o.model);
  if (app.count("--max-tokens") == 0) o.generate.max_tokens = model.context();
  o.generate.adapter = model.adapter();
  const data::ChatTemplate chat_template = app.count("--chat-template") > 0
                                               ? data::chat_template_named(o.chat_template, &model.tokenizer())
                                               : data::chat_template_of(model.tokenizer(), model.file().path);
  apps::take_sampler_defaults(app, model, o.generate.sampler);
  apps::report_repacking(model);
  const bool has_system = app.count("--system") > 0;
  infer::Conversation conversation(model.engine(), model.tokenizer(), chat_template,
                                   has_system ? std::optional(o.system) : std::nullopt);

  if (!one_shot) return converse(conversation, o);
  const infer::Answer answer = take_turn(conversation, o, o.prompt);
  return answer.result.finish_reason == infer::FinishReason::Interrupted ? apps::interrupted_code() : 0;
}

}  // namespace

int main(int argc, char** argv) {
  apps::Flags app("Talks with a model: a line is a turn, and so is each line of a piped text.", "chat");
  Options options;
  add_flags(app, options);
  return apps::run_program(app, argc, argv, [&] { return run(app, options); });
}
