// Mistakes in B. Kitano's "Llama from scratch" and in a port of it, each demonstrated and fixed. The results are
// explained in README.md.
#include <fmt/format.h>
#include <torch/nn/modules/container/any.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "data/batches.h"
#include "experiments/03_debugging/own_mistakes.h"
#include "experiments/common/broken.h"
#include "experiments/common/report.h"
#include "experiments/common/statistics.h"
#include "experiments/common/symptoms.h"
#include "experiments/common/training.h"
#include "experiments/common/variants.h"
#include "train/report/ngram.h"
#include "train/step/evaluate.h"

namespace folio::experiments {
namespace {

using torch::nn::AnyModule;

template <typename T>
struct Pair {
  std::vector<T> copied{}, mended{};  // results by seed, with the mistake and with its fix
};

// Mistake 3 in README.md. Returns the remaining time after `step`; clock[i] is the time after step i. The mistake is to
// multiply the time since the last log line by the remaining steps without dividing by the steps between log lines.
int64_t eta(const std::vector<int64_t>& clock, size_t step, size_t log_every, bool mended) {
  const int64_t since_last_line = clock[step] - clock[step - log_every];
  const auto steps_left = static_cast<int64_t>(clock.size() - 1 - step);
  return mended ? since_last_line * steps_left / static_cast<int64_t>(log_every) : since_last_line * steps_left;
}

// Mistake 4 in README.md: always choosing the most likely character, so that all generated lines are equal. Counts the
// distinct lines among five; line(i) generates line i, always from the same prompt.
int64_t count_different_lines(const std::function<std::vector<int32_t>(uint64_t number)>& line) {
  std::set<std::vector<int32_t>> lines;
  for (uint64_t i = 0; i < 5; ++i) lines.insert(line(i));
  return static_cast<int64_t>(lines.size());
}

nn::Llama by_default(nn::Llama model) {
  initialize_by_default(model);
  return model;
}

void study(Report& report) {
  const Shakespeare text = load_shakespeare();
  const double knowing_nothing = std::log(static_cast<double>(text.vocab_size));
  train::TrainConfig config = small_setting(text);
  core::ModelConfig untied = config.model;  // a separate output matrix, as in Kitano's model
  untied.tie_embeddings = false;
  const auto mean_norms = changed_blocks([&](nn::BlockParts& parts, const nn::RopeCache&) {
    parts.attention_norm = AnyModule(MeanNorm(config.model.dim));
    parts.ffn_norm = AnyModule(MeanNorm(config.model.dim));
  });
  const auto discarding = blocks_that_discard_attention();
  const std::vector<int32_t> prompt = text.tokenizer.encode("\n");

  Pair<int64_t> nans, gradients, etas, lines;
  Pair<double> nan_losses, losses, firsts, tied_firsts;
  Pair<train::LineChart::Point> curves;  // validation losses of the last seed
  for (const uint64_t seed : report.seeds()) {
    config.seed = seed;
    const data::BatchSampler batches(text.splits.train, config.batch_size, config.window, seed);
    const auto batch = train::to_tensors(batches.batch(0), torch::kCPU);
    const auto model_of = [&](const core::ModelConfig& shape, const ModelParts& blocks = {}) {
      return seeded_llama(shape, seed, blocks);
    };
    nans.copied.push_back(count_nans(model_of(config.model, mean_norms)));
    nans.mended.push_back(count_nans(model_of(config.model)));
    nan_losses.copied.push_back(first_loss(model_of(config.model, mean_norms), batch));
    gradients.copied.push_back(count_without_gradient(model_of(config.model, discarding), batch));
    gradients.mended.push_back(count_without_gradient(model_of(config.model), batch));
    firsts.copied.push_back(first_loss(by_default(model_of(untied)), batch));
    firsts.mended.push_back(first_loss(model_of(untied), batch));
    tied_firsts.copied.push_back(first_loss(by_default(model_of(config.model)), batch));
    tied_firsts.mended.push_back(first_loss(model_of(config.model), batch));
    nan_losses.mended = tied_firsts.mended;

    nn::Llama broken = model_of(config.model, discarding), model = model_of(config.model);
    const auto broken_run = train_model(broken, text, config);
    const auto run = train_model(model, text, config);
    losses.copied.push_back(broken_run.validation_loss);
    losses.mended.push_back(run.validation_loss);
    curves = {broken_run.validation, run.validation};

    std::vector<int64_t> clock{0};  // simulated time after each step: one tick per step
    while (clock.back() < config.steps) clock.push_back(clock.back() + 1);
    etas.copied.push_back(eta(clock, clock.size() / 2, 10, false));
    etas.mended.push_back(eta(clock, clock.size() / 2, 10, true));

    const auto greedy = [&](uint64_t) { return greedy_tokens(model, prompt, 60, config.window); };
    const auto drawn = [&](uint64_t number) {
      return sample_tokens(model, prompt, 60, config.window, 5 * seed + number);
    };
    lines.copied.push_back(count_different_lines(greedy));
    lines.mended.push_back(count_different_lines(drawn));
    report.say(fmt::format("seed {}, the likeliest each time:{}", seed, text.tokenizer.decode(greedy(0))));
  }

  const auto row = [](const std::string& name, const auto& pair) {
    return std::vector<Report::Json>{name, joined(pair.copied), joined(pair.mended)};
  };
  report.table(
      "Five mistakes, by seed", {"", "as copied", "mended"},
      {row("1 characters of 65 that become NaN", nans), row("1 first loss", nan_losses),
       row("2 parameters without a gradient", gradients), row("2 loss after training", losses),
       row(fmt::format("3 ETA when {} ticks are left", config.steps / 2), etas), row("4 different lines of 5", lines),
       row("5 first loss, head of its own", firsts), row("5 first loss, head tied to the embedding", tied_firsts)});

  const std::vector<double> nan_counts(nans.copied.begin(), nans.copied.end());
  report.check_above("1 copied: characters of 65 that become NaN", nan_counts, 16);
  report.check_below("1 copied: characters of 65 that become NaN", nan_counts, 49);
  report.check_equal("1 copied: first losses that are numbers",
                     std::ranges::count_if(nan_losses.copied, [](double x) { return std::isfinite(x); }), 0);
  report.check_equal("1 mended: characters that become NaN", nans.mended, 0);
  report.check_equal("2 copied: parameters without a gradient, 5 in each layer", gradients.copied, 10);
  report.check_equal("2 mended: parameters without a gradient", gradients.mended, 0);
  report.check_above("2 what discarding attention costs", differences(losses.copied, losses.mended), 0.15);
  report.check_equal("3 copied: the ETA is ten times the ticks left", etas.copied, 10 * (config.steps / 2));
  report.check_equal("3 mended: the ETA is the ticks left", etas.mended, config.steps / 2);
  report.check_equal("4 copied: different lines of 5", lines.copied, 1);
  report.check_equal("4 mended: different lines of 5", lines.mended, 5);
  report.check_above("5 copied: first loss, head of its own", firsts.copied, knowing_nothing + 0.05);
  report.check_above("5 copied: first loss, head tied", tied_firsts.copied, knowing_nothing + 10.0);
  report.check_below("5 mended: first loss, head of its own", firsts.mended, knowing_nothing + 0.08);
  report.check_below("5 mended: first loss, head tied", tied_firsts.mended, knowing_nothing + 0.08);
  study_own_mistakes(report, text);

  const double bigram =
      train::NgramCounts(text.splits.train, text.vocab_size, 2).add_k_loss(text.splits.validation, 2, 0.01);
  report.picture("debugging.svg",
                 {.title = "Mistake 2: without attention the loss falls, too",
                  .x_label = "step",
                  .y_label = "validation loss (nats per character)",
                  .series = {{"discarded", curves.copied}, {"added", curves.mended}},
                  .references = {{"ln 65, knowing nothing", knowing_nothing}, {"bigram by counting", bigram}}});
}

}  // namespace
}  // namespace folio::experiments

int main(int argc, char** argv) {
  return folio::experiments::run(argc, argv, "03_debugging", folio::experiments::study);
}
