// Study: how much does RMSNorm help training, and what fails if a norm averages over positions? The results
// are explained in README.md.
#include <fmt/format.h>
#include <torch/nn/modules/container/any.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <numeric>

#include "experiments/common/broken.h"
#include "experiments/common/comparison.h"
#include "experiments/common/report.h"
#include "experiments/common/symptoms.h"
#include "experiments/common/training.h"
#include "experiments/common/variants.h"

namespace {

using namespace folio;  // NOLINT: a single-file program
using experiments::Report;
using torch::nn::AnyModule;
using Doubles = std::vector<double>;

// A run has learned if its validation loss (nats) is below this. Unigram frequencies give 3.34, bigrams 2.49.
constexpr double kLearned = 2.6;

// Returns a setting that is hard to train: twelve layers, no warm-up, no gradient clipping.
train::TrainConfig deep_setting(const experiments::Shakespeare& text, bool short_form) {
  train::TrainConfig config = experiments::small_setting(text);
  config.model.n_layers = short_form ? 2 : 12;
  config.steps = short_form ? 10 : 300;
  config.batch_size = 8;
  config.warmup_steps = 0;
  config.clip = 0.0;
  config.eval_every = config.steps;
  return config;
}

experiments::Leak train_and_look_for_leaks(const experiments::Shakespeare& text, const train::TrainConfig& config,
                                           const experiments::Change& change) {
  nn::Llama model =
      experiments::seeded_llama(config.model, config.seed, experiments::changed_blocks(config.model, change));
  static_cast<void>(experiments::train_model(model, text, config));
  return experiments::look_for_leaks(model, text, config.window, change);
}

// Returns the validation loss of predicting each character by its frequency in the training split.
double unigram_loss(const experiments::Shakespeare& text) {
  Doubles count(static_cast<size_t>(text.vocab_size), 1.0);
  for (const int32_t token : text.splits.train) ++count[static_cast<size_t>(token)];
  const double all = std::accumulate(count.begin(), count.end(), 0.0);
  double sum = 0.0;
  const auto targets = text.splits.validation.subspan(1, experiments::kValidationTokens);
  for (const int32_t token : targets) sum -= std::log(count[static_cast<size_t>(token)] / all);
  return sum / static_cast<double>(targets.size());
}

// Losses at one learning rate, by seed; NaN where a run diverged.
struct AtRate {
  Doubles losses{};

  [[nodiscard]] int64_t learned() const {
    return std::ranges::count_if(losses, [](double loss) { return loss < kLearned; });
  }
  [[nodiscard]] int64_t diverged() const {
    return std::ranges::count_if(losses, [](double loss) { return std::isnan(loss); });
  }
  [[nodiscard]] std::string shown() const {
    Doubles finite = losses;
    std::erase_if(finite, [](double loss) { return std::isnan(loss); });
    std::string text = fmt::format("{} of {} learned", learned(), losses.size());
    if (diverged() > 0) text += fmt::format(", {} diverged", diverged());
    if (finite.empty()) return text;
    const auto [lowest, highest] = std::ranges::minmax_element(finite);
    return text + fmt::format(": {:.3f} – {:.3f}", *lowest, *highest);
  }
};

// Trains twelve layers, with and without norms, at several learning rates.
void compare_rates(Report& report, const experiments::Shakespeare& text) {
  const train::TrainConfig setting = deep_setting(text, report.short_form());
  const Doubles rates = report.short_form() ? Doubles{3e-3} : Doubles{1e-3, 3e-3, 1e-2, 3e-2};
  const std::vector<uint64_t> seeds = experiments::paired_seeds(report);
  std::vector<AtRate> with(rates.size(), {Doubles(seeds.size())}), without = with;
  std::mutex one_line_at_a_time;
  experiments::run_jobs(2 * rates.size() * seeds.size(), [&](size_t job) {
    const bool normed = job % 2 == 0;
    const size_t r = job / 2 % rates.size(), s = job / 2 / rates.size();
    train::TrainConfig config = setting;
    config.lr = rates[r];
    config.seed = seeds[s];
    nn::Llama model =
        experiments::seeded_llama(config.model, config.seed,
                                  normed ? experiments::ModelParts{} : experiments::blocks_without_norms(config.model));
    const double loss = experiments::train_model(model, text, config).validation_loss;
    (normed ? with : without)[r].losses[s] = loss;
    const std::lock_guard lock(one_line_at_a_time);
    report.say(
        fmt::format("  {} norms at {:g}, seed {}: {:.3f}", normed ? "with" : "without", rates[r], seeds[s], loss));
  });

  train::LineChart chart{.title = fmt::format("{} layers after {} steps; a line ends where a run diverged",
                                              setting.model.n_layers, setting.steps),
                         .x_label = "learning rate",
                         .y_label = "validation loss, mean of the seeds (nats per character)",
                         .series = {{"with RMSNorm", {}}, {"without", {}}},
                         .references = {{"unigram", unigram_loss(text)}, {"has learned", kLearned}},
                         .log_x = true};
  Report::Rows rows;
  for (size_t r = 0; r < rates.size(); ++r) {
    // If a run diverged, the interval is NaN, and the table has a dash.
    const auto gain = experiments::paired_interval(without[r].losses, with[r].losses);
    rows.push_back({fmt::format("{:g}", rates[r]), with[r].shown(), without[r].shown(),
                    std::isnan(gain.mean) ? Report::Json() : Report::Json(experiments::shown(gain))});
    chart.series[0].points.push_back({rates[r], experiments::mean_of(with[r].losses)});
    chart.series[1].points.push_back({rates[r], experiments::mean_of(without[r].losses)});
  }
  report.table(fmt::format("Validation loss of {} layers after {} steps; learned: below {}; unigram: {:.3f}",
                           setting.model.n_layers, setting.steps, kLearned, chart.references[0].y),
               {"learning rate", "with RMSNorm", "without", "without minus with"}, rows);
  report.picture("rates.svg", chart);
  if (report.short_form()) return;
  const auto all = std::ssize(seeds);
  const auto diverged = [](int64_t sum, const AtRate& at) { return sum + at.diverged(); };
  report.check_equal("with norms, runs that diverged at any rate",
                     std::accumulate(with.begin(), with.end(), int64_t{0}, diverged), 0);
  report.check_equal("without norms, runs at 0.01 that diverged", without[2].diverged(), all);
  report.check_equal("with norms, runs at 0.001 that learned", with[0].learned(), all);
  report.check_above("at 0.001, norms gain", experiments::paired_interval(without[0].losses, with[0].losses), 0.1);
}

// Compares RMSNorm, which averages over the elements of one position, with a norm that averages over the whole
// sequence, so that positions depend on later ones.
void compare_means(Report& report, const experiments::Shakespeare& text) {
  train::TrainConfig setting = experiments::small_setting(text);
  if (report.short_form()) setting.steps = 30;
  setting.eval_every = setting.steps;
  const experiments::Change over_sequence = [&](nn::BlockParts& parts, const nn::RopeCache&) {
    parts.attention_norm = AnyModule(experiments::SequenceNorm(setting.model.dim));
    parts.ffn_norm = AnyModule(experiments::SequenceNorm(setting.model.dim));
  };
  const std::vector<uint64_t> seeds = experiments::paired_seeds(report);
  std::vector<experiments::Leak> sound(seeds.size()), leaking(seeds.size());
  experiments::run_jobs(2 * seeds.size(), [&](size_t job) {
    train::TrainConfig config = setting;
    config.seed = seeds[job / 2];
    if (job % 2 == 0) sound[job / 2] = train_and_look_for_leaks(text, config, {});
    if (job % 2 == 1) leaking[job / 2] = train_and_look_for_leaks(text, config, over_sequence);
  });
  Report::Rows rows;
  Doubles losses, sound_losses, cached_losses;
  Doubles changes, sound_changes, cached_changes, sound_cached_changes;
  for (size_t s = 0; s < seeds.size(); ++s) {
    for (const experiments::Leak* leak : {&sound[s], &leaking[s]}) {
      rows.push_back({fmt::format("seed {}, {}", seeds[s], leak == &sound[s] ? "each position" : "the sequence"),
                      leak->earlier_change, leak->cached_change, leak->loss, leak->cached_loss});
    }
    changes.push_back(leaking[s].earlier_change);
    sound_changes.push_back(sound[s].earlier_change);
    cached_changes.push_back(leaking[s].cached_change);
    sound_cached_changes.push_back(sound[s].cached_change);
    losses.push_back(leaking[s].loss);
    sound_losses.push_back(sound[s].loss);
    cached_losses.push_back(leaking[s].cached_loss);
  }
  report.table("A norm over each position, or over the sequence",
               {"norm over", "change of earlier logits", "cache against full pass", "loss", "loss with cache"}, rows);
  const auto in_training = experiments::paired_interval(losses, sound_losses);
  const auto in_decoding = experiments::paired_interval(cached_losses, losses);
  report.table("A norm over the sequence: " + experiments::count_of_intervals(2), {"", "nats"},
               {{"loss minus that of a norm over each position", experiments::shown(in_training)},
                {"loss with cache minus loss", experiments::shown(in_decoding)}});

  report.check_equal("a norm over each position: earlier logits that change with the last token",
                     std::ranges::count_if(sound_changes, [](double c) { return c != 0.0; }), 0);
  report.check_above("a norm over the sequence: an earlier logit changes by", changes, 0.05);
  report.check_below("a norm over each position: cached decoding differs by", sound_cached_changes, 1e-3);
  report.check_above("a norm over the sequence: cached decoding differs by", cached_changes, 0.5);
  if (!report.short_form()) report.check_above("and its loss is higher by", in_decoding, 0.05);
}

void study(Report& report) {
  const experiments::Shakespeare text = experiments::load_shakespeare();
  compare_rates(report, text);
  compare_means(report, text);
}

}  // namespace

int main(int argc, char** argv) { return experiments::run(argc, argv, "04_rms_norm", study); }
