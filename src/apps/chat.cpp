// chat: a conversation with a chat model. Prints answers to stdout, everything else to stderr.
#include <fmt/ranges.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <optional>

#include "apps/text_program.h"
#include "core/error.h"
#include "core/file_io.h"
#include "core/print_stderr.h"
#include "infer/engine/conversation.h"

namespace {

using namespace folio;

constexpr const char* kHelp =
    "  /reset       remove all messages except the system message\n"
    "  /save FILE   write the messages to FILE as a JSON list of {\"role\", \"content\"}\n"
    "  /help        print this help\n"
    "Ctrl-C stops an answer, or exits between answers; Ctrl-D exits.\n";

struct Options {
  apps::ModelFlags model;
  std::string chat_template;
  std::string system;
  std::string prompt;
  bool json = false;
  infer::GenerateOptions generate;
};

void add_flags(apps::Flags& app, Options& o) {
  app.default_group("General");
  app.group("Conversation");
  app.add_option("--system", o.system, "system message (default: the chat template's, if it has one)");
  app.add_option("-p,--prompt", o.prompt, "run one turn with this message and exit");
  app.add_option("--chat-template NAME|FILE", o.chat_template,
                 fmt::format("chat template: {}, or a Jinja file (default: the model's)",
                             fmt::join(data::chat_template_names(), ", ")));
  app.add_flag("--json", o.json, "with --prompt: print one JSON object to stdout and nothing else");
  apps::add_model_flags(app, o.model);
  app.group("Model");
  apps::add_tokenizer_flag(app, o.model.load.tokenizer);
  apps::add_lora_flag(app, o.model.load);
  apps::add_generation_config_flag(app, o.model.load);
  app.group("Generation");
  app.add_option("-n,--max-tokens", o.generate.max_tokens,
                 "maximum number of tokens per answer (default: the remaining context)")
      ->in_range(1, 1e9);
  apps::add_generation_flags(app, o.generate);
  apps::add_draft_flags(app, o.model.load);
}

infer::Answer take_turn(infer::Conversation& conversation, const Options& o, std::string text) {
  apps::watch_signals();
  infer::Answer answer =
      conversation.say(std::move(text), o.generate, o.json ? std::function<void(std::string_view)>() : apps::print_text,
                       apps::interrupted);
  const infer::GenerateResult& result = answer.result;
  const size_t computed = answer.prompt_tokens.size() - result.n_cached;
  const size_t n = result.tokens.size();
  const auto speeds = apps::speeds_json(computed, n == 0 ? 0 : n - 1, result);
  if (o.json) {
    auto json = apps::result_json(answer.prompt_tokens, result);
    json.update(speeds);
    json["seed"] = o.generate.sampler.seed;
    apps::print_json(json);
  } else {
    apps::print_text("\n");
    core::print_stderr(
        "[{} prompt tokens computed, {} cached; {} generated, {:.0f} tokens/s, finish_reason {}, seed {}]\n", computed,
        result.n_cached, n, speeds["decode_tokens_per_s"].get<double>(),
        infer::finish_reason_name(result.finish_reason), o.generate.sampler.seed);
  }
  return answer;
}

void save(const infer::Conversation& conversation, const std::string& file) {
  core::require(!file.empty(), "/save: the file name is missing; write /save FILE");
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
    core::fail("unknown command {}; /help lists the commands", core::printable(command));
  }
}

// Reads the next line of stdin, at most 1 MiB, into `line`, without "\n" or "\r\n". Returns false at the end of the
// input.
bool next_line(std::string& line) {
  constexpr size_t kMost = size_t{1} << 20U;
  line.clear();
  int c = 0;
  while ((c = std::getchar()) != EOF && c != '\n') {
    line += static_cast<char>(c);
    core::require(line.size() <= kMost, "stdin: a line has more than {} bytes; split it", kMost);
  }
  core::require(std::ferror(stdin) == 0, "cannot read stdin: {}", std::strerror(errno));
  const bool more = c != EOF || !line.empty();
  if (line.ends_with('\r')) line.pop_back();
  return more;
}

// Runs one turn per line of stdin. On a terminal, prints errors and continues; otherwise, an error is thrown.
int converse(infer::Conversation& conversation, const Options& o) {
  const bool person = isatty(STDIN_FILENO) != 0;
  if (person) core::print_stderr("{}", kHelp);
  for (std::string line;;) {
    apps::end_on_signals();
    // SIGINT stops only an answer. Other signals during an answer end the program.
    if (apps::interrupted_code() != 128 + SIGINT) return apps::interrupted_code();
    if (person) core::print_stderr("> ");
    if (!next_line(line)) break;
    if (line.empty()) continue;
    try {
      if (line[0] == '/') {
        obey(conversation, line);
      } else {
        take_turn(conversation, o, line);
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
  if (one_shot && o.prompt.empty()) {
    throw core::UsageError("--prompt: the message is empty; leave out the flag to read turns from stdin");
  }
  if (o.json && !one_shot) throw core::UsageError("--json requires a single turn; add --prompt TEXT");
  apps::complete_generation_options(app, o.generate);
  o.model.load.context = o.generate.context;
  o.model.load.limits.max_sequences = 1;
  apps::complete_draft_source(o.generate.speculate, o.model.load);
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
  apps::Flags app("Chat with a model. Each line of the input is a turn, from a terminal or a pipe.", "chat");
  Options options;
  add_flags(app, options);
  return apps::run_program(app, argc, argv, [&] { return run(app, options); });
}
