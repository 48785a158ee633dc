// What does RMSNorm buy, and what may it average over? Table, picture and explanation: README.md beside this file.
#include <fmt/format.h>
#include <torch/nn/modules/container/any.h>

#include <algorithm>
#include <cmath>

#include "experiments/common/broken.h"
#include "experiments/common/comparison.h"
#include "experiments/common/report.h"
#include "experiments/common/symptoms.h"
#include "experiments/common/training.h"
#include "experiments/common/variants.h"

namespace {

using namespace folio;  // NOLINT: a program of one file
using experiments::Report;
using torch::nn::AnyModule;
using Doubles = std::vector<double>;

// Twelve layers, a learning rate that is there from the first step, and gradients as they come.
train::TrainConfig deep_setting(const experiments::Shakespeare& text) {
  train::TrainConfig config = experiments::small_setting(text);
  config.model.n_layers = 12;
  config.steps = 40;
  config.batch_size = 8;
  config.warmup_steps = 0;
  config.clip = 0.0;
  config.eval_every = config.steps;
  return config;
}

struct Ladder {
  Doubles losses{};      ///< after training, by learning rate; not a number where it diverged
  double largest = 0.0;  ///< the largest learning rate that is stable: the loss ends below the one that it began with
};

Ladder climb(const experiments::Shakespeare& text, train::TrainConfig config, const Doubles& rates,
             const nn::BlockFactory& blocks) {
  Ladder ladder;
  for (const double rate : rates) {
    config.lr = rate;
    nn::Llama model = experiments::seeded_llama(config.model, config.seed, blocks);
    const auto run = experiments::train_model(model, text, config);
    ladder.losses.push_back(run.validation_loss);
    if (run.validation_loss < run.validation.front().y) ladder.largest = std::max(ladder.largest, rate);
  }
  return ladder;
}

experiments::Leak train_and_look_for_leaks(const experiments::Shakespeare& text, const train::TrainConfig& config,
                                           const experiments::Change& change) {
  nn::Llama model =
      experiments::seeded_llama(config.model, config.seed, experiments::changed_blocks(config.model, change));
  static_cast<void>(experiments::train_model(model, text, config));
  return experiments::look_for_leaks(model, text, config.window, change);
}

void study(Report& report) {
  const experiments::Shakespeare text = experiments::load_shakespeare();
  train::TrainConfig deep = deep_setting(text);
  const Doubles rates = report.short_form() ? Doubles{3e-3, 3e-2} : Doubles{1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 3e-1};
  train::TrainConfig small = experiments::small_setting(text);
  if (report.short_form()) small.steps = 100;
  const experiments::Change over_sequence = [&](nn::BlockParts& parts, const nn::RopeCache&) {
    parts.attention_norm = AnyModule(experiments::SequenceNorm(small.model.dim));
    parts.ffn_norm = AnyModule(experiments::SequenceNorm(small.model.dim));
  };

  std::vector<std::vector<Report::Json>> rates_rows, leak_rows;
  train::LineChart chart{.title = "Twelve layers after 40 steps; where a thick line ends, training diverged",
                         .x_label = "learning rate",
                         .y_label = "validation loss (nats per character)",
                         .series = {{"with RMSNorm", {}}, {"without", {}}},
                         .references = {{"ln 65, knowing nothing", std::log(static_cast<double>(text.vocab_size))}},
                         .log_x = true};
  Doubles ratios, changes, sound_changes, cached_changes, sound_cached_changes, costs;
  const std::vector<uint64_t> seeds = report.seeds();
  struct Runs {
    Ladder with{}, without{};
    experiments::Leak sound{}, leaking{};
  };
  std::vector<Runs> runs(seeds.size());
  experiments::run_jobs(4 * seeds.size(), [&](size_t job) {
    train::TrainConfig its_deep = deep, its_small = small;
    its_deep.seed = its_small.seed = seeds[job / 4];
    Runs& its = runs[job / 4];
    if (job % 4 == 0) its.with = climb(text, its_deep, rates, {});
    if (job % 4 == 1) its.without = climb(text, its_deep, rates, experiments::blocks_without_norms(deep.model));
    if (job % 4 == 2) its.sound = train_and_look_for_leaks(text, its_small, {});
    if (job % 4 == 3) its.leaking = train_and_look_for_leaks(text, its_small, over_sequence);
  });
  for (size_t s = 0; s < seeds.size(); ++s) {
    const auto& [with, without, sound, leaking] = runs[s];
    ratios.push_back(with.largest / without.largest);
    for (const Ladder* ladder : {&with, &without}) {
      rates_rows.push_back({fmt::format("seed {}, {}", seeds[s], ladder == &with ? "with" : "without")});
      for (const double loss : ladder->losses) {
        rates_rows.back().push_back(std::isnan(loss) ? Report::Json("NaN") : Report::Json(loss));
      }
      if (s > 0) continue;
      auto& points = chart.series[ladder == &with ? 0 : 1].points;
      for (size_t i = 0; i < rates.size(); ++i) points.push_back({rates[i], ladder->losses[i]});
    }
    for (const experiments::Leak* leak : {&sound, &leaking}) {
      leak_rows.push_back({fmt::format("seed {}, {}", seeds[s], leak == &sound ? "each position" : "the sequence"),
                           leak->earlier_change, leak->cached_change, leak->loss, leak->cached_loss});
    }
    changes.push_back(leaking.earlier_change);
    sound_changes.push_back(sound.earlier_change);
    cached_changes.push_back(leaking.cached_change);
    sound_cached_changes.push_back(sound.cached_change);
    costs.push_back(leaking.cached_loss - leaking.loss);
  }

  std::vector<std::string> columns{"learning rate"};
  for (const double rate : rates) columns.push_back(fmt::format("{:g}", rate));
  report.table("Validation loss of 12 layers after 40 steps", columns, rates_rows);
  report.table("A norm over each position, or over the sequence",
               {"norm over", "change of earlier logits", "cache against full pass", "loss", "loss with cache"},
               leak_rows);
  report.picture("rates.svg", chart);

  report.claim_above("the largest stable learning rate grows by the factor", ratios, 5.0);
  report.claim_equal("a norm over each position: earlier logits that change with the last token",
                     static_cast<int64_t>(std::ranges::count_if(sound_changes, [](double c) { return c != 0.0; })), 0);
  report.claim_above("a norm over the sequence: an earlier logit changes by", changes, 0.05);
  report.claim_below("a norm over each position: cached decoding differs by", sound_cached_changes, 1e-3);
  report.claim_above("a norm over the sequence: cached decoding differs by", cached_changes, 0.5);
  report.claim_above("and its loss is higher by", costs, 0.05);
}

}  // namespace

int main(int argc, char** argv) { return experiments::run(argc, argv, "04_rms_norm", study); }
