// Trains variants of a model from the same seeds on the same batches and compares them by paired differences.
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
  ModelParts blocks{};  ///< the model's parts; null: Llama's
  Prepare prepare{};
  double lr = 0.0;  ///< learning rate; 0: that of the study's setting
};

struct Outcome {
  std::string name;
  int64_t parameters = 0;
  std::vector<double> losses{};    ///< by seed: final validation loss
  std::vector<double> measured{};  ///< by seed: result of `measure`; the final loss if no `measure` is given
};

/// Calls job(i) for 0 <= i < count on one thread per processor and rethrows the first exception. Results don't depend
/// on the machine if each job computes on one thread and uses LibTorch's global generator only under a lock.
void run_jobs(size_t count, const std::function<void(size_t)>& job);

/// A function that measures a trained model. Called concurrently for different models.
using Measure = std::function<double(nn::Llama& model)>;

/// Trains every variant from every seed. A run uses `setting` with the seed, the variant's model, and its lr if not 0.
/// Measures each trained model with `measure`, if given. Runs are parallel, but each uses one thread, so losses don't
/// depend on the number of processors. Returns outcomes in the order of `variants`. Throws core::Error if a run fails.
[[nodiscard]] std::vector<Outcome> train_variants(const Report& report, const Shakespeare& text,
                                                  const train::TrainConfig& setting,
                                                  const std::vector<Variant>& variants,
                                                  const std::vector<uint64_t>& seeds, const Measure& measure = {});

/// Returns the seeds of a study that compares small differences: the n seeds from report.seed() on, or the first two of
/// them in short form.
[[nodiscard]] std::vector<uint64_t> paired_seeds(const Report& report, size_t n = 8);

/// Returns the seeds for choosing learning rates: two that are not in paired_seeds(), or none if the study runs in its
/// short form (--short).
[[nodiscard]] std::vector<uint64_t> tuning_seeds(const Report& report);

/// The result of a learning rate search: the loss at each rate tried, averaged over seeds.
struct RateSearch {
  std::vector<double> rates{};   ///< ascending, from the series 0.001, 0.003, 0.01, 0.03, …
  std::vector<double> losses{};  ///< infinity where training diverged, NaN where no run was made
  size_t best = 0;

  [[nodiscard]] double best_rate() const { return rates[best]; }
};

/// For each index `which` into `middles`, finds the learning rate with the lowest mean of loss(which, rate, seed)
/// over `seeds`. Tries `middles[which]` and its neighbors in the series 0.001, 0.003, 0.01, …, then extends the range
/// (within 1e-5 to 10) while the best rate is at an end. `loss` must be thread-safe and return NaN if training
/// diverged.
[[nodiscard]] std::vector<RateSearch> search_rates(
    const std::vector<double>& middles, const std::vector<uint64_t>& seeds,
    const std::function<double(size_t which, double rate, uint64_t seed)>& loss);

/// Searches around setting.lr with tuning_seeds(), and sets each variant's lr to the rate with the lowest mean of
/// `measure`, or of the validation loss if empty. In short form, sets it to setting.lr. Returns one search per variant.
std::vector<RateSearch> tune_variants(const Report& report, const Shakespeare& text, const train::TrainConfig& setting,
                                      std::vector<Variant>& variants, const Measure& measure = {});

/// Returns `setting` with its learning rate set to `lr` and its final rate scaled in proportion.
[[nodiscard]] train::TrainConfig with_rate(train::TrainConfig setting, double lr);

/// Formats a search for a table cell: "0.001: 2.325, 0.003: 2.183, 0.01: 2.381".
[[nodiscard]] std::string shown(const RateSearch& search);

/// Returns a phrase for a table's title: "12 intervals, of which 0.6 are expected to miss their true value".
[[nodiscard]] std::string count_of_intervals(size_t count);

}  // namespace folio::experiments
