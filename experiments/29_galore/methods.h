// The training methods of the study: an optimizer with its settings, and the set of trained parameters.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "experiments/common/comparison.h"
#include "experiments/common/report.h"
#include "experiments/common/training.h"

namespace folio::experiments {

struct Method {
  std::string name;
  bool quarter = false;  ///< true: AdamW scales the learning rate of the blocks' matrices by 1/4, as GaLore does
  train::OptimizerKind optimizer = train::OptimizerKind::AdamW;
  int64_t rank = 0;                      ///< rank of GaLore's projections; ignored by other optimizers
  int64_t every = 50;                    ///< steps between updates of GaLore's subspaces
  int64_t lora_rank = 0;                 ///< if above 0, trains only adapters of this rank on all matrices of blocks
  double middle = 3e-3;                  ///< learning rate at which the search starts
  RateSearch search{};                   ///< result of the search on tuning_seeds
  int64_t trained = 0;                   ///< number of trained parameters
  int64_t state_bytes = 0;               ///< bytes of optimizer state
  double step_seconds = 0.0;             ///< CPU time per step
  int64_t steps_in_time = 0;             ///< number of steps that take as long as the first method's run
  std::vector<double> judged{};          ///< validation losses at the best rate, by seed
  std::vector<double> judged_in_time{};  ///< validation losses after steps_in_time steps, by seed
};

/// A text and a training configuration. `start` is the initial model; if null, weights are initialized from the seed.
struct Task {
  const Shakespeare& text;
  train::TrainConfig setting;
  const nn::Llama* start = nullptr;
};

/// Returns the initial model for a method. With a lora_rank, all parameters except the adapters are frozen.
[[nodiscard]] nn::Llama model_for(const Task& task, const Method& method, uint64_t seed);

/// Returns the validation loss after `steps`, NaN if training diverged. Stores the trained model in `model` if given.
[[nodiscard]] double loss_after(const Task& task, const Method& method, double lr, uint64_t seed, int64_t steps,
                                nn::Llama* model = nullptr);

/// Finds each method's best learning rate on tuning_seeds, and sets `search`.
void choose_rates(const Report& report, const Task& task, std::vector<Method>& methods);

/// Sets each method's `trained`, `state_bytes`, `step_seconds` and `steps_in_time`. `step_seconds` is the median over
/// rounds, in each of which every method runs some steps.
void measure_steps(const Report& report, const Task& task, std::vector<Method>& methods);

/// Trains each method from each seed at its best rate, and sets `judged` and `judged_in_time`.
void judge(const Report& report, const Task& task, std::vector<Method>& methods);

/// Prints the table of results, with differences from the first method. `steps` is the number of training steps, for
/// the table's title.
void show(Report& report, const std::string& title, const std::vector<Method>& methods, int64_t steps);

}  // namespace folio::experiments
