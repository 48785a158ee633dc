// Variants of a model, each trained from the same seeds on the same batches, and compared by paired differences.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "experiments/common/report.h"
#include "experiments/common/statistics.h"
#include "experiments/common/training.h"

namespace folio::experiments {

struct Variant {
  std::string name;
  core::ModelConfig model;
  /// Makes the factory of the model's blocks; without it they are Llama's.
  std::function<nn::BlockFactory(const core::ModelConfig&)> blocks{};
  /// Changes the model's first values, if there is one.
  std::function<void(nn::Llama& model)> prepare{};
};

struct Outcome {
  std::string name;
  int64_t parameters = 0;
  std::vector<double> losses{};    ///< by seed: the validation loss at the end
  std::vector<double> measured{};  ///< by seed: what `measure` said of the trained model, if there was one
};

/// Calls job(i) for 0 <= i < count, as many at once as there are processors, and throws what the first failed one
/// threw. Jobs that compute on one thread each and draw from LibTorch's generator, which is one for all threads, only
/// under a lock of theirs have results that don't depend on the machine.
void run_jobs(size_t count, const std::function<void(size_t)>& job);

/// Called for one model at a time.
using Measure = std::function<double(nn::Llama& model)>;

/// Trains every variant from every seed by `setting`, in which the variant's model and the seed are put. A run computes
/// on one thread, so that its losses don't depend on the machine, and as many run at once as there are processors.
/// Outcomes are in the variants' order. Throws core::Error if a run fails.
[[nodiscard]] std::vector<Outcome> train_variants(const Report& report, const Shakespeare& text,
                                                  const train::TrainConfig& setting,
                                                  const std::vector<Variant>& variants,
                                                  const std::vector<uint64_t>& seeds, const Measure& measure = {});

/// The seeds of a study of small differences: five from report.seed() on, or two in short form.
[[nodiscard]] std::vector<uint64_t> paired_seeds(const Report& report);

/// "+0.012 [-0.003, +0.027]", for a table's cell.
[[nodiscard]] std::string shown(const Interval& interval);

}  // namespace folio::experiments
