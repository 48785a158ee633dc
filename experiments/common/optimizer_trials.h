// Trainings that differ by their optimizer: each gets a grid of learning rates, the best of which is chosen on one seed
// and judged on others.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "experiments/common/optimizers.h"
#include "experiments/common/report.h"
#include "experiments/common/training.h"

namespace folio::experiments {

struct Contender {
  std::string name;
  OptimizerOptions options;
  std::vector<double> rates;     ///< the grid, rising
  std::vector<double> losses{};  ///< at each of them, on the seed on which the rate is chosen
  size_t best = 0;               ///< of the grid; a training that diverged is never chosen
  std::vector<double> judged{};  ///< at the best rate, on other seeds

  [[nodiscard]] double best_rate() const { return rates[best]; }
};

struct Trial {
  const Contender* contender = nullptr;
  double lr = 0.0;
  uint64_t seed = 0;
  bool warmup = true;
  bool clip = true;
};

class OptimizerTrials {
 public:
  OptimizerTrials(const Report& report, const Shakespeare& text, train::TrainConfig setting);

  /// The rate of Muon's AdamW, for what is no matrix of a block.
  double muons_adamw_rate = 0.0;

  /// The validation loss at the end of each, several at once. Not a number where the training diverged.
  std::vector<double> run(const std::vector<Trial>& trials) const;

  /// Fills in losses and best, on report.seed().
  void choose_rates(const std::vector<Contender*>& contenders) const;

  /// The losses at a rate, on the seeds after those of choose_rates: report.seeds(), each plus 1.
  std::vector<double> judge(const Contender& contender, double lr, bool warmup = true, bool clip = true) const;

 private:
  const Report& report_;
  const Shakespeare& text_;
  train::TrainConfig setting_;
};

}  // namespace folio::experiments
