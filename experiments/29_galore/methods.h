// The ways to train that the study compares: each is an optimizer with its settings, and what of the model it trains.
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
  bool quarter =
      false;  ///< with AdamW: steps of the matrices of the blocks are a quarter, as GaLore's are by its scale
  train::OptimizerKind optimizer = train::OptimizerKind::AdamW;
  int64_t rank = 0;       ///< GaLore's
  int64_t every = 50;     ///< steps between GaLore's subspaces
  int64_t lora_rank = 0;  ///< the model is frozen, and adapters of this rank on all matrices of its blocks are trained
  double middle = 3e-3;   ///< where the search for its rate begins
  RateSearch search{};    ///< what was found, on tuning_seeds
  int64_t trained = 0;    ///< numbers that are trained
  int64_t state_bytes = 0;               ///< of the optimizer
  double step_seconds = 0.0;             ///< of one processor, in a step
  int64_t steps_in_time = 0;             ///< in the time of the first method's steps
  std::vector<double> judged{};          ///< losses at the best rate, on paired_seeds
  std::vector<double> judged_in_time{};  ///< the same after steps_in_time
};

/// A text to train on, how, and from what: a trained model's values, or with null first ones that follow from the seed.
struct Task {
  const Shakespeare& text;
  train::TrainConfig setting;
  const nn::Llama* start = nullptr;
};

/// A model as the method trains it; what is frozen has no gradient.
[[nodiscard]] nn::Llama model_for(const Task& task, const Method& method, uint64_t seed);

/// The validation loss after `steps`, or not a number where the training diverged. `model`, if there is one, becomes
/// the trained one.
[[nodiscard]] double loss_after(const Task& task, const Method& method, double lr, uint64_t seed, int64_t steps,
                                nn::Llama* model = nullptr);

/// Fills in each method's rate.
void choose_rates(const Report& report, const Task& task, std::vector<Method>& methods);

/// Fills in what a step of each costs: bytes of state, and seconds, the median of rounds in which the methods take
/// turns. steps_in_time follows.
void measure_steps(const Report& report, const Task& task, std::vector<Method>& methods);

/// Fills in the losses at the best rates, after the setting's steps and after steps_in_time.
void judge(const Report& report, const Task& task, std::vector<Method>& methods);

/// The table of what was found; differences are against the first method.
void show(Report& report, const std::string& title, const std::vector<Method>& methods, int64_t steps);

}  // namespace folio::experiments
