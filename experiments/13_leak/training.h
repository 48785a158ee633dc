// Trains the tutorial's model as the tutorial does: batches of 32 windows of 16 characters, Adam with its defaults.
// A training is a function of its seed, wherever it is cut into turns.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "data/batches.h"
#include "experiments/13_leak/tutorial.h"
#include "experiments/common/shakespeare.h"
#include "train/step/adamw.h"
#include "train/report/line_chart.h"

namespace folio::experiments::tutorial {

class Training {
 public:
  /// With a `file`, goes on from the state that was saved there, if there is one.
  Training(const Config& config, const Shakespeare& text, uint64_t seed, std::filesystem::path file = {});

  /// Takes steps until there are `steps` of them, or `minutes` have passed. Saves the state if there is a file for it.
  /// Throws core::Error if a loss is not finite. Whether there are as many now.
  bool train_to(int64_t steps, double minutes = 1e9);

  [[nodiscard]] Llama& model() { return model_; }
  [[nodiscard]] int64_t steps() const { return steps_; }
  /// The tutorial's evaluations of the validation split, one every 100 steps.
  [[nodiscard]] std::vector<train::LineChart::Point> curve() const;

 private:
  [[nodiscard]] std::vector<torch::Tensor> state() const;  ///< the parameters and Adam's two moments of each

  uint64_t seed_;
  std::filesystem::path file_;
  Llama model_;
  train::AdamW adam_;
  data::BatchSampler batches_, validation_;
  int64_t steps_ = 0;
  std::vector<double> evaluations_;
};

}  // namespace folio::experiments::tutorial
