// Study: how much does RMSNorm help training, and what fails if a norm averages over positions? The results
// are explained in README.md.
#include <fmt/format.h>
#include <torch/nn/modules/container/any.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "experiments/common/broken.h"
#include "experiments/common/comparison.h"
#include "experiments/common/report.h"
#include "experiments/common/symptoms.h"
#include "experiments/common/training.h"
#include "experiments/common/variants.h"

namespace folio::experiments {
namespace {

using torch::nn::AnyModule;
using Doubles = std::vector<double>;

// A run has learned if its validation loss (nats) is below this. Unigram frequencies give 3.34, bigrams 2.49.
constexpr double kLearned = 2.6;

// Returns a setting that is hard to train: twelve layers, no warm-up, no gradient clipping.
train::TrainConfig deep_setting(const Shakespeare& text, bool short_form) {
  train::TrainConfig config = small_setting(text);
  config.model.n_layers = short_form ? 2 : 12;
  config.steps = short_form ? 10 : 300;
  config.batch_size = 8;
  config.warmup_steps = 0;
  config.clip = 0.0;
  config.eval_every = config.steps;
  return config;
}

Leak train_and_look_for_leaks(const Shakespeare& text, const train::TrainConfig& config, const Change& change) {
  nn::Llama model = seeded_llama(config.model, config.seed, changed_blocks(change));
  static_cast<void>(train_model(model, text, config));
  return look_for_leaks(model, text, config.window, change);
}

// Returns the validation loss of predicting each character by its frequency in the training split.
double unigram_loss(const Shakespeare& text) {
  Doubles count(static_cast<size_t>(text.vocab_size), 1.0);
  for (const int32_t token : text.splits.train) ++count[static_cast<size_t>(token)];
  const double all = std::accumulate(count.begin(), count.end(), 0.0);
  double sum = 0.0;
  const auto targets = text.splits.validation.subspan(1, kValidationTokens);
  for (const int32_t token : targets) sum -= std::log(count[static_cast<size_t>(token)] / all);
  return sum / static_cast<double>(targets.size());
}

// The arguments of the next three functions are losses at one learning rate, by seed; NaN where a run diverged.

int64_t learned(const Doubles& losses) {
  return std::ranges::count_if(losses, [](double loss) { return loss < kLearned; });
}

int64_t diverged(const Doubles& losses) {
  return std::ranges::count_if(losses, [](double loss) { return std::isnan(loss); });
}

std::string summary(const Doubles& losses) {
  Doubles finite = losses;
  std::erase_if(finite, [](double loss) { return std::isnan(loss); });
  std::string text = fmt::format("{} of {} learned", learned(losses), losses.size());
  if (diverged(losses) > 0) text += fmt::format(", {} diverged", diverged(losses));
  if (finite.empty()) return text;
  const auto [lowest, highest] = std::ranges::minmax_element(finite);
  return text + fmt::format(": {:.3f} – {:.3f}", *lowest, *highest);
}

// Trains twelve layers, with and without norms, at several learning rates.
void compare_rates(Report& report, const Shakespeare& text) {
  const train::TrainConfig setting = deep_setting(text, report.short_form());
  const Doubles rates = report.short_form() ? Doubles{3e-3} : Doubles{1e-3, 3e-3, 1e-2, 3e-2};
  const std::vector<uint64_t> seeds = paired_seeds(report);
  std::vector<Variant> variants;
  for (const double rate : rates) {
    variants.push_back({.name = fmt::format("with norms at {:g}", rate), .model = setting.model, .lr = rate});
    variants.push_back({.name = fmt::format("without norms at {:g}", rate),
                        .model = setting.model,
                        .blocks = blocks_without_norms(),
                        .lr = rate});
  }
  const auto outcomes = train_variants(report, text, setting, variants, seeds);
  const auto with = [&](size_t r) -> const Doubles& { return outcomes[2 * r].losses; };
  const auto without = [&](size_t r) -> const Doubles& { return outcomes[2 * r + 1].losses; };

  train::LineChart chart{.title = fmt::format("{} layers after {} steps; a line ends where a run diverged",
                                              setting.model.n_layers, setting.steps),
                         .x_label = "learning rate",
                         .y_label = "validation loss, mean of the seeds (nats per character)",
                         .series = {{"with RMSNorm", {}}, {"without", {}}},
                         .references = {{"unigram", unigram_loss(text)}, {"has learned", kLearned}},
                         .log_x = true};
  Report::Rows rows;
  int64_t diverged_with_norms = 0;
  for (size_t r = 0; r < rates.size(); ++r) {
    diverged_with_norms += diverged(with(r));
    // If a run diverged, the interval is NaN, and the table has a dash.
    const auto gain = paired_interval(without(r), with(r));
    rows.push_back({fmt::format("{:g}", rates[r]), summary(with(r)), summary(without(r)),
                    std::isnan(gain.mean) ? Report::Json() : Report::Json(shown(gain))});
    chart.series[0].points.push_back({rates[r], mean_of(with(r))});
    chart.series[1].points.push_back({rates[r], mean_of(without(r))});
  }
  report.table(fmt::format("Validation loss of {} layers after {} steps; learned: below {}; unigram: {:.3f}",
                           setting.model.n_layers, setting.steps, kLearned, chart.references[0].y),
               {"learning rate", "with RMSNorm", "without", "without minus with"}, rows);
  report.picture("rates.svg", chart);
  if (report.short_form()) return;
  const auto all = std::ssize(seeds);
  report.check_equal("with norms, runs that diverged at any rate", diverged_with_norms, 0);
  report.check_equal("without norms, runs at 0.01 that diverged", diverged(without(2)), all);
  report.check_equal("with norms, runs at 0.001 that learned", learned(with(0)), all);
  report.check_above("at 0.001, norms gain", paired_interval(without(0), with(0)), 0.1);
}

// Compares RMSNorm, which averages over the elements of one position, with a norm that averages over the whole
// sequence, so that positions depend on later ones.
void compare_means(Report& report, const Shakespeare& text) {
  train::TrainConfig setting = small_setting(text);
  if (report.short_form()) setting.steps = 30;
  setting.eval_every = setting.steps;
  const Change over_sequence = [&](nn::BlockParts& parts, const nn::RopeCache&) {
    parts.attention_norm = AnyModule(SequenceNorm(setting.model.dim));
    parts.ffn_norm = AnyModule(SequenceNorm(setting.model.dim));
  };
  const std::vector<uint64_t> seeds = paired_seeds(report);
  std::vector<Leak> sound(seeds.size()), leaking(seeds.size());
  run_jobs(2 * seeds.size(), [&](size_t job) {
    train::TrainConfig config = setting;
    config.seed = seeds[job / 2];
    if (job % 2 == 0) sound[job / 2] = train_and_look_for_leaks(text, config, {});
    if (job % 2 == 1) leaking[job / 2] = train_and_look_for_leaks(text, config, over_sequence);
  });
  Report::Rows rows;
  for (size_t s = 0; s < seeds.size(); ++s) {
    for (const Leak* leak : {&sound[s], &leaking[s]}) {
      rows.push_back({fmt::format("seed {}, {}", seeds[s], leak == &sound[s] ? "each position" : "the sequence"),
                      leak->earlier_change, leak->cached_change, leak->loss, leak->cached_loss});
    }
  }
  report.table("A norm over each position, or over the sequence",
               {"norm over", "change of earlier logits", "cache against full pass", "loss", "loss with cache"}, rows);
  const auto each = [](const std::vector<Leak>& leaks, double Leak::*of) {
    Doubles values;
    for (const Leak& leak : leaks) values.push_back(leak.*of);
    return values;
  };
  const Doubles losses = each(leaking, &Leak::loss);
  const auto in_training = paired_interval(losses, each(sound, &Leak::loss));
  const auto in_decoding = paired_interval(each(leaking, &Leak::cached_loss), losses);
  report.table("A norm over the sequence: " + count_of_intervals(2), {"", "nats"},
               {{"loss minus that of a norm over each position", shown(in_training)},
                {"loss with cache minus loss", shown(in_decoding)}});

  report.check_equal("a norm over each position: earlier logits that change with the last token",
                     std::ranges::count_if(sound, [](const auto& leak) { return leak.earlier_change != 0.0; }), 0);
  report.check_above("a norm over the sequence: an earlier logit changes by", each(leaking, &Leak::earlier_change),
                     0.05);
  report.check_below("a norm over each position: cached decoding differs by", each(sound, &Leak::cached_change), 1e-3);
  report.check_above("a norm over the sequence: cached decoding differs by", each(leaking, &Leak::cached_change), 0.5);
  if (!report.short_form()) report.check_above("and its loss is higher by", in_decoding, 0.05);
}

void study(Report& report) {
  const Shakespeare text = load_shakespeare();
  compare_rates(report, text);
  compare_means(report, text);
}

}  // namespace
}  // namespace folio::experiments

int main(int argc, char** argv) {
  return folio::experiments::run(argc, argv, "04_rms_norm", folio::experiments::study);
}
