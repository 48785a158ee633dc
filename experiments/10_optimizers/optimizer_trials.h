// Trains with different optimizers. Each optimizer's learning rate is chosen on tuning seeds and evaluated on other
// seeds.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "experiments/10_optimizers/optimizers.h"
#include "experiments/common/comparison.h"
#include "experiments/common/report.h"
#include "experiments/common/training.h"

namespace folio::experiments {

struct Contender {
  std::string name;
  OptimizerOptions options;
  double middle = 3e-3;          ///< learning rate at which the search starts
  RateSearch search{};           ///< result of the search on tuning_seeds
  std::vector<double> judged{};  ///< losses at the best rate on paired_seeds
};

struct Trial {
  const Contender* contender = nullptr;
  double lr = 0.0;
  bool warmup = true;
  bool clip = true;
};

class OptimizerTrials {
 public:
  OptimizerTrials(const Report& report, const Shakespeare& text, train::TrainConfig setting);

  /// Learning rate of AdamW in trials of Muon, which updates only the blocks' matrices. Must be set before such trials.
  double muons_adamw_rate = 0.0;

  /// Finds each contender's best learning rate and its losses at that rate: sets `search` and `judged`.
  void run(std::span<Contender> contenders) const;

  /// Returns the final validation losses of each trial, one per seed of paired_seeds(); NaN where training diverged.
  [[nodiscard]] std::vector<std::vector<double>> judge(const std::vector<Trial>& trials) const;

 private:
  [[nodiscard]] double loss(const Trial& trial, uint64_t seed) const;

  const Report& report_;
  const Shakespeare& text_;
  train::TrainConfig setting_;
};

}  // namespace folio::experiments
