// perplexity: measures how well a model predicts a text.
#include "infer/engine/perplexity.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>

#include "apps/text_program.h"
#include "core/error.h"
#include "core/file_io.h"
#include "core/print_stderr.h"
#include "core/progress_line.h"
#include "core/seconds_since.h"

namespace {

using namespace folio;

struct Options {
  apps::ModelFlags model;
  std::string text;
  bool json = false;
  bool token_logprobs = false;
};

void add_flags(apps::Flags& app, Options& o) {
  app.default_group("Options");
  app.add_option("--text FILE", o.text, "text file to score")->required();
  app.add_option("-c,--context", o.model.load.context, "window size in tokens (default: the model's context)")
      ->in_range(2, 1 << 24);
  app.add_flag("--json", o.json, "print one JSON object to stdout: tokens, nll (mean, in nats), perplexity");
  app.add_flag("--token-logprobs", o.token_logprobs,
               "also print the log-probability of each scored token, one per line, or \"token_logprobs\" with --json");
  apps::add_model_flags(app, o.model);
  app.group("Model");
  apps::add_tokenizer_flag(app, o.model.load.tokenizer);
  apps::add_lora_flag(app, o.model.load);
}

// Sums the log probabilities of scored tokens, and shows progress on a terminal in a line that is rewritten.
class PerplexitySum {
 public:
  explicit PerplexitySum(int64_t total) : total_(total) {}

  void add(std::span<const double> log_probs) {
    for (const double p : log_probs) nll_ -= p;
    n_ += static_cast<int64_t>(log_probs.size());
    progress_.show("{}", line());
  }
  void finish() {
    progress_.erase();
    core::print_stderr("{}\n", line());
  }

  [[nodiscard]] int64_t n() const { return n_; }
  [[nodiscard]] double nll() const { return nll_ / static_cast<double>(n_); }

 private:
  [[nodiscard]] std::string line() const {
    const double seconds = core::seconds_since(start_);
    return fmt::format("{} of {} tokens, {:.0f} tokens/s, perplexity {:.4f}", n_, total_,
                       static_cast<double>(n_) / seconds, std::exp(nll()));
  }

  int64_t total_;
  int64_t n_ = 0;
  double nll_ = 0.0;
  core::ProgressLine progress_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// Tokenizes `text` as one document, with a BOS token if the tokenizer adds one. Errors begin with `where`.
std::vector<int32_t> tokens_of(const data::Tokenizer& tokenizer, const std::string& text, const std::string& where) {
  std::vector<int32_t> tokens;
  try {
    tokens = tokenizer.with_prefix(tokenizer.encode(text));
  } catch (const core::Error& error) {
    core::fail("{}: {}", where, error.what());
  }
  core::require(tokens.size() >= 2, "{}: the text has {} tokens, expected at least 2; use a longer text", where,
                tokens.size());
  return tokens;
}

int run(const Options& o) {
  const std::string text = core::read_text_file(o.text);
  infer::LoadedModel model = apps::open_model(o.model);
  const int64_t context = model.context();
  const std::vector<int32_t> tokens = tokens_of(model.tokenizer(), text, o.text);
  apps::report_repacking(model);

  apps::watch_signals();
  PerplexitySum sum(infer::scored_tokens(static_cast<int64_t>(tokens.size()), context));
  std::vector<double> all;
  const auto score = [&](std::span<const double> log_probs) {
    sum.add(log_probs);
    if (o.token_logprobs && o.json) all.insert(all.end(), log_probs.begin(), log_probs.end());
    for (size_t i = 0; i < log_probs.size() && o.token_logprobs && !o.json; ++i) fmt::print("{}\n", log_probs[i]);
    return !apps::interrupted();
  };
  infer::score_windows(model.engine(), tokens, context, score, model.adapter());
  sum.finish();
  if (apps::interrupted()) return apps::interrupted_code();
  if (o.json) {
    nlohmann::ordered_json json{{"tokens", sum.n()}, {"nll", sum.nll()}, {"perplexity", std::exp(sum.nll())}};
    if (o.token_logprobs) json["token_logprobs"] = all;
    apps::print_json(json);
  } else if (!o.token_logprobs) {
    fmt::print("{} tokens, nll {:.6f} nats, perplexity {:.6f}\n", sum.n(), sum.nll(), std::exp(sum.nll()));
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  apps::Flags app(
      "Measure how well a model predicts a text, cut into windows that do not overlap. Each token except a window's "
      "first is scored.",
      "perplexity");
  Options options;
  add_flags(app, options);
  return apps::run_program(app, argc, argv, [&] { return run(options); });
}
