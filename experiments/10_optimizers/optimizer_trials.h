// Trainings that differ by their optimizer: each has a learning rate of its own, chosen on some seeds and judged on
// others.
#pragma once

#include <cstdint>
#include <mutex>
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
  double middle = 3e-3;          ///< where the search for its rate begins
  RateSearch search{};           ///< what was found, on tuning_seeds
  std::vector<double> judged{};  ///< the losses at the best rate, on paired_seeds
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

  /// The rate of Muon's AdamW, for what is no matrix of a block.
  double muons_adamw_rate = 0.0;

  /// Fills in `search`.
  void choose_rates(const std::vector<Contender*>& contenders) const;

  /// The validation losses at the end, by trial and by seed of paired_seeds. Not a number where a training diverged.
  [[nodiscard]] std::vector<std::vector<double>> judge(const std::vector<Trial>& trials) const;

 private:
  [[nodiscard]] double loss(const Trial& trial, uint64_t seed) const;

  const Report& report_;
  const Shakespeare& text_;
  train::TrainConfig setting_;
  mutable std::mutex one_line_at_a_time_;
};

}  // namespace folio::experiments
