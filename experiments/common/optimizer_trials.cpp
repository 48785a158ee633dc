#include "experiments/common/optimizer_trials.h"

#include <fmt/format.h>
#include <torch/utils.h>

#include <cmath>
#include <mutex>
#include <utility>

#include "experiments/common/comparison.h"

namespace folio::experiments {

OptimizerTrials::OptimizerTrials(const Report& report, const Shakespeare& text, train::TrainConfig setting)
    : report_(report), text_(text), setting_(std::move(setting)) {}

std::vector<double> OptimizerTrials::run(const std::vector<Trial>& trials) const {
  torch::set_num_threads(1);
  std::vector<double> losses(trials.size());
  std::mutex one_line_at_a_time;
  run_jobs(trials.size(), [&](size_t i) {
    const Trial& trial = trials[i];
    train::TrainConfig config = setting_;
    config.lr = trial.lr;
    config.seed = trial.seed;
    if (!trial.warmup) config.warmup_steps = 0;
    if (!trial.clip) config.clip = 0.0;
    OptimizerOptions options = trial.contender->options;
    options.adamw_share = muons_adamw_rate / trial.lr;
    nn::Llama model = seeded_llama(config.model, config.seed);
    Optimizer optimizer(model, options);
    losses[i] = train_model(model, text_, config, [&](double lr) { optimizer.step(lr); }).validation_loss;
    const std::lock_guard lock(one_line_at_a_time);
    report_.say(fmt::format("  {} at {:g}, seed {}{}{}: {:.3f}", trial.contender->name, trial.lr, trial.seed,
                            trial.warmup ? "" : ", no warm-up", trial.clip ? "" : ", no clipping", losses[i]));
  });
  return losses;
}

void OptimizerTrials::choose_rates(const std::vector<Contender*>& contenders) const {
  std::vector<Trial> trials;
  for (const Contender* c : contenders) {
    for (const double lr : c->rates) trials.push_back({c, lr, report_.seed()});
  }
  const std::vector<double> losses = run(trials);
  size_t next = 0;
  for (Contender* c : contenders) {
    c->losses.clear();
    double lowest = INFINITY;
    for (size_t i = 0; i < c->rates.size(); ++i) {
      c->losses.push_back(losses[next++]);
      if (!(c->losses[i] < lowest)) continue;
      lowest = c->losses[i];
      c->best = i;
    }
  }
}

std::vector<double> OptimizerTrials::judge(const Contender& contender, double lr, bool warmup, bool clip) const {
  std::vector<Trial> trials;
  for (const uint64_t seed : report_.seeds()) trials.push_back({&contender, lr, seed + 1, warmup, clip});
  return run(trials);
}

}  // namespace folio::experiments
