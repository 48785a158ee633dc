// The feed-forward networks that the study compares, dense or of experts, in blocks that are alike in all else; what
// they cost, and which expert takes which character.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "experiments/common/comparison.h"
#include "experiments/common/report.h"
#include "experiments/common/training.h"
#include "train/config/choices.h"

namespace folio::experiments {

struct Method {
  std::string name;
  core::ModelConfig model;
  train::Balance balance = train::Balance::Loss;  ///< of experts; Bias has sigmoids as scores, as DeepSeek-V3
  double rate = 0.0;                              ///< of the balance; 0: none
  RateSearch search{};                            ///< learning rates, on tuning_seeds
  double lr = 3e-3;                               ///< the best of them
  double step_seconds = 0.0;                      ///< of one processor
  int64_t steps_in_time = 0;                      ///< in the time of the first method's steps
  std::vector<double> judged{};                   ///< losses, by seed
  std::vector<double> judged_in_time{};           ///< the same after steps_in_time
  std::vector<double> loads{};                    ///< train::largest_load() on the validation text, by seed
};

/// One network of the setting's width.
[[nodiscard]] Method dense(const train::TrainConfig& setting);
/// `n` experts, of which a token takes `chosen`, all of which together are as wide as the setting's network.
[[nodiscard]] Method experts(const train::TrainConfig& setting, int64_t n, int64_t chosen,
                             train::Balance balance = train::Balance::Loss, double rate = 0.01);

struct Trained {
  double loss = 0.0;
  double load = 0.0;  ///< 0: there are no experts
  nn::Llama model{nullptr};
};
[[nodiscard]] Trained trained(const Shakespeare& text, const train::TrainConfig& setting, const Method& method,
                              double lr, uint64_t seed, int64_t steps);

/// Fills in the best learning rates, and what a step costs beside the first method's.
void choose_rates(const Report& report, const Shakespeare& text, const train::TrainConfig& setting,
                  std::vector<Method>& methods);
void measure_steps(const Report& report, const Shakespeare& text, const train::TrainConfig& setting,
                   std::vector<Method>& methods);
/// Fills in losses and loads, and with `in_time` the losses of as much time.
void judge(const Report& report, const Shakespeare& text, const train::TrainConfig& setting,
           std::vector<Method>& methods, bool in_time);

/// Which experts the characters of the validation text took in a layer.
struct Choices {
  std::vector<double> share;    ///< [E, V]: of a character's occurrences, those that took the expert
  double bits = 0.0;            ///< what a character says of an expert that it takes: their mutual information
  int64_t rows = 0, taken = 0;  ///< characters, and experts that they took
};
[[nodiscard]] std::vector<Choices> choices_of(nn::Llama& model, const Shakespeare& text, int64_t window);

}  // namespace folio::experiments
