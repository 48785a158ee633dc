// Trains the model of B. Kitano's "Llama from scratch" as its notebook does: batches of 32 windows of 16 characters,
// Adam with default settings. Results depend only on the seed, not on interruptions.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "data/batches.h"
#include "experiments/13_leak/tutorial.h"
#include "experiments/common/shakespeare.h"
#include "train/report/line_chart.h"
#include "train/step/adamw.h"

namespace folio::experiments::tutorial {

class Training {
 public:
  /// Creates a model from `seed`, or resumes from `file` if it exists. Throws core::Error if the file
  /// doesn't fit `config`.
  Training(const Config& config, const Shakespeare& text, uint64_t seed, std::filesystem::path file = {});

  /// Trains until `steps` steps are complete or `minutes` have passed, then saves the state to the file passed to the
  /// constructor, if any. Returns true if all steps are complete. Throws core::Error if a loss is not finite.
  bool train_to(int64_t steps, double minutes = 1e9);

  [[nodiscard]] Llama& model() { return model_; }
  [[nodiscard]] int64_t steps() const { return steps_; }
  /// Returns the validation losses, one every 100 steps from step 0, with dropout on the attention weights as in
  /// Kitano's notebook.
  [[nodiscard]] std::vector<train::LineChart::Point> curve() const;

 private:
  [[nodiscard]] std::vector<torch::Tensor> state() const;  ///< all parameters, and Adam's two moments of each

  uint64_t seed_;
  std::filesystem::path file_;
  Llama model_;
  train::AdamW adam_;
  data::BatchSampler batches_, validation_;
  int64_t steps_ = 0;
  std::vector<double> evaluations_;
};

}  // namespace folio::experiments::tutorial
