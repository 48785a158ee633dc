#include "experiments/10_optimizers/optimizer_trials.h"

#include <fmt/format.h>

#include <utility>

namespace folio::experiments {

OptimizerTrials::OptimizerTrials(const Report& report, const Shakespeare& text, train::TrainConfig setting)
    : report_(report), text_(text), setting_(std::move(setting)) {}

double OptimizerTrials::loss(const Trial& trial, uint64_t seed) const {
  train::TrainConfig config = setting_;
  config.lr = trial.lr;
  config.seed = seed;
  if (!trial.warmup) config.warmup_steps = 0;
  if (!trial.clip) config.clip = 0.0;
  OptimizerOptions options = trial.contender->options;
  options.adamw_share = muons_adamw_rate / trial.lr;
  nn::Llama model = seeded_llama(config.model, config.seed);
  Optimizer optimizer(model, options);
  const double loss = train_model(model, text_, config, [&](double lr) { optimizer.step(lr); }).validation_loss;
  report_.say(fmt::format("  {} at {:g}, seed {}{}{}: {:.3f}", trial.contender->name, trial.lr, seed,
                          trial.warmup ? "" : ", no warm-up", trial.clip ? "" : ", no clipping", loss));
  return loss;
}

void OptimizerTrials::run(std::span<Contender> contenders) const {
  std::vector<double> middles;
  for (const Contender& c : contenders) middles.push_back(c.middle);
  const auto found = search_rates(middles, tuning_seeds(report_), [&](size_t which, double rate, uint64_t seed) {
    return loss({.contender = &contenders[which], .lr = rate}, seed);
  });
  std::vector<Trial> best;
  for (size_t i = 0; i < found.size(); ++i) best.push_back({&contenders[i], found[i].best_rate()});
  const auto judged = judge(best);
  for (size_t i = 0; i < found.size(); ++i) {
    contenders[i].search = found[i];
    contenders[i].judged = judged[i];
  }
}

std::vector<std::vector<double>> OptimizerTrials::judge(const std::vector<Trial>& trials) const {
  const std::vector<uint64_t> seeds = paired_seeds(report_);
  std::vector<std::vector<double>> losses(trials.size(), std::vector<double>(seeds.size()));
  run_jobs(trials.size() * seeds.size(), [&](size_t i) {
    const size_t t = i / seeds.size(), s = i % seeds.size();
    losses[t][s] = loss(trials[t], seeds[s]);
  });
  return losses;
}

}  // namespace folio::experiments
