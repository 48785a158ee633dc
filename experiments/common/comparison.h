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
  /// Makes the model's parts; without it they are Llama's.
  std::function<ModelParts(const core::ModelConfig&)> blocks{};
  /// Changes the model's first values, if there is one.
  std::function<void(nn::Llama& model)> prepare{};
  double lr = 0.0;  ///< its own learning rate; 0: the setting's
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

/// The seeds of a study of small differences: eight from report.seed() on, or two in short form.
[[nodiscard]] std::vector<uint64_t> paired_seeds(const Report& report);

/// The seeds on which learning rates are chosen: two that are not among paired_seeds, or none in short form.
[[nodiscard]] std::vector<uint64_t> tuning_seeds(const Report& report);

/// The mean loss of some seeds at each of the learning rates that were tried.
struct RateSearch {
  std::vector<double> rates{};   ///< rising; neighbours in 0.001, 0.003, 0.01, 0.03, …
  std::vector<double> losses{};  ///< infinite where a training diverged, not a number where none was tried
  size_t best = 0;

  [[nodiscard]] double best_rate() const { return rates[best]; }
};

/// For each of some trainings, the best learning rate: tries `middles[which]` and the rate on either side of it, and,
/// as long as the best one lies at an end, the next rate beyond that end (from 1e-5 to 10). `loss` is called as a job
/// of run_jobs; not a number means that the training diverged.
[[nodiscard]] std::vector<RateSearch> search_rates(
    const std::vector<double>& middles, const std::vector<uint64_t>& seeds,
    const std::function<double(size_t which, double rate, uint64_t seed)>& loss);

/// Gives each variant its best rate, found by search_rates around the setting's on tuning_seeds. The judge is
/// `measure`, or else the validation loss.
std::vector<RateSearch> tune_variants(const Report& report, const Shakespeare& text, const train::TrainConfig& setting,
                                      std::vector<Variant>& variants, const Measure& measure = {});

/// The setting with another learning rate; its cosine ends at the same share of it.
[[nodiscard]] train::TrainConfig with_rate(train::TrainConfig setting, double lr);

/// "0.001: 2.325, 0.003: 2.183, 0.01: 2.381", for a table's cell.
[[nodiscard]] std::string shown(const RateSearch& search);

/// "12 intervals, of which 0.6 are expected to miss their true value", for a table's title.
[[nodiscard]] std::string count_of_intervals(size_t count);

/// "+0.012 [-0.003, +0.027]", for a table's cell.
[[nodiscard]] std::string shown(const Interval& interval);

}  // namespace folio::experiments
