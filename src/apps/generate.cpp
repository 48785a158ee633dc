// generate: text from a model, a token at a time.
#include "infer/generate.h"

#include <unistd.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <random>

#include "apps/program.h"
#include "core/error.h"

namespace {

using namespace folio;

struct Options {
  apps::ModelFlags model;
  std::string prompt;
  bool echo = true;
  bool json = false;
  infer::GenerateOptions generate;
};

void add_flags(CLI::App& app, Options& o) {
  apps::add_model_flags(app, o.model);
  app.add_option("-p,--prompt,prompt", o.prompt, "the text to go on from (default: a new line)");
  app.add_option("-n,--max-tokens", o.generate.max_tokens, "tokens to generate")
      ->check(apps::in_range(0, 1e9))
      ->capture_default_str();
  infer::SamplerOptions& s = o.generate.sampler;
  app.add_option("--temperature,--temp", s.temperature, "0: always the likeliest")
      ->check(apps::in_range(0, 100))
      ->capture_default_str();
  app.add_option("--top-k", s.top_k, "keep the K likeliest; 0: off")
      ->check(apps::in_range(0, 1e9))
      ->capture_default_str();
  app.add_option("--top-p", s.top_p, "keep the fewest with this much probability; 1: off")
      ->check(apps::in_range(1e-6, 1))
      ->capture_default_str();
  app.add_option("--min-p", s.min_p, "keep those with this share of the likeliest's probability; 0: off")
      ->check(apps::in_range(0, 1))
      ->capture_default_str();
  app.add_option("--repeat-penalty", s.repeat_penalty, "1: off")
      ->check(apps::in_range(1e-3, 100))
      ->capture_default_str();
  app.add_option("--repeat-last-n", s.repeat_last_n, "the penalty looks at so many tokens")
      ->check(apps::in_range(0, 1e9))
      ->capture_default_str();
  app.add_option("-s,--seed", s.seed, "seed of the draws (default: random, printed)")->check(apps::in_range(0, 1.8e19));
  app.add_option("--stop", o.generate.stops, "end before this text; repeatable")->expected(1);
  app.add_option("-c,--context", o.generate.context, "positions to use (default: the model's context)")
      ->check(apps::in_range(2, 1 << 24));
  app.add_flag("--slide", o.generate.slide, "at the end of the context keep the last half and go on");
  app.add_flag("--echo,!--no-echo", o.echo, "show the prompt before the text (on, but with --json)");
  app.add_flag("--json", o.json, "one JSON object on stdout, and nothing else");
}

void print_json(const Options& o, const std::vector<int32_t>& prompt, const infer::GenerateResult& r) {
  const auto rate = [](size_t n, double seconds) {
    return n == 0 || seconds <= 0 ? 0.0 : static_cast<double>(n) / seconds;
  };
  const nlohmann::ordered_json json = {
      {"prompt_tokens", prompt},
      {"tokens", r.tokens},
      {"text", r.text},
      {"prefill_tokens_per_s", rate(prompt.size(), r.prefill_seconds)},
      {"decode_tokens_per_s", rate(r.tokens.empty() ? 0 : r.tokens.size() - 1, r.decode_seconds)},
      {"finish_reason", infer::finish_reason_name(r.finish_reason)},
      {"seed", o.generate.sampler.seed},
  };
  fmt::print("{}\n", json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

void print_text(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

int run(const CLI::App& app, Options& o) {
  const bool prompt_given = app.count("--prompt") > 0;
  if (prompt_given && o.prompt.empty()) {
    throw core::UsageError("the prompt is empty; leave it out to begin after a new line");
  }
  for (const std::string& stop : o.generate.stops) {
    if (stop.empty()) throw core::UsageError("--stop: the text is empty");
  }
  if (app.count("--seed") == 0) o.generate.sampler.seed = std::random_device{}();

  const infer::Model model(apps::resolve_model(o.model));
  if (o.generate.context > model.config().context_length) {
    throw core::UsageError(
        fmt::format("--context is {}, but the model's is {}", o.generate.context, model.config().context_length));
  }
  const auto tokenizer = data::tokenizer_from_gguf(model.file());
  core::require(tokenizer->vocab_size() == model.config().vocab_size, "{}: {} tokens in the tokenizer, {} in the model",
                model.file().path().string(), tokenizer->vocab_size(), model.config().vocab_size);
  const std::vector<int32_t> prompt = prompt_given ? tokenizer->encode(o.prompt) : tokenizer->default_prompt();
  infer::Engine engine(model, {.n_threads = o.model.threads});

  apps::watch_interrupt();
  o.generate.interrupted = apps::interrupted;
  if (!o.json && o.echo && prompt_given) print_text(o.prompt);
  const infer::GenerateResult result = infer::generate(engine, *tokenizer, prompt, o.generate,
                                                       o.json ? std::function<void(std::string_view)>{} : print_text);
  if (o.json) {
    print_json(o, prompt, result);
  } else {
    print_text("\n");
    const size_t decoded = result.tokens.empty() ? 0 : result.tokens.size() - 1;
    fmt::print(stderr, "\n{} tokens, {:.0f} tokens/s, finish_reason {}, seed {}\n", result.tokens.size(),
               decoded == 0 ? 0.0 : static_cast<double>(decoded) / result.decode_seconds,
               infer::finish_reason_name(result.finish_reason), o.generate.sampler.seed);
  }
  return result.finish_reason == infer::FinishReason::Interrupted ? apps::kExitInterrupted : 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Generates text from a model file.", "generate");
  Options options;
  add_flags(app, options);
  return apps::run_program(app, argc, argv, [&] { return run(app, options); });
}
