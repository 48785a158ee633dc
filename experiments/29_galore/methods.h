// The training methods of the study: an optimizer with its settings, and the set of trained parameters.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "experiments/common/methods.h"

namespace folio::experiments {

struct Method {
  std::string name;
  bool quarter = false;  ///< true: AdamW scales the learning rate of the blocks' matrices by 1/4, as GaLore does
  train::OptimizerKind optimizer = train::OptimizerKind::AdamW;
  int64_t rank = 0;                      ///< rank of GaLore's projections; ignored by other optimizers
  int64_t every = 50;                    ///< steps between updates of GaLore's subspaces
  int64_t lora_rank = 0;                 ///< if above 0, trains only adapters of this rank on all matrices of blocks
  double lr = 3e-3;                      ///< learning rate; compare() searches around it and sets it
  RateSearch search{};                   ///< result of the search on tuning_seeds()
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

/// Returns a model with its optimizer, to be trained with the method and config_of_run(task.setting, lr, seed, steps).
[[nodiscard]] Running start(const Task& task, const Method& method, double lr, uint64_t seed, int64_t steps);

/// Compares the methods with compare() of common/methods.h, and sets `trained` and `state_bytes`.
void compare(const Report& report, const Task& task, std::vector<Method>& methods);

/// Prints the table of results, with differences from the first method. `steps` is the number of training steps, for
/// the table's title.
void show(Report& report, const std::string& title, const std::vector<Method>& methods, int64_t steps);

}  // namespace folio::experiments
