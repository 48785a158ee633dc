// The models that the study compares: with one dense feed-forward network per block, or with a mixture of experts.
// Trains them, measures their cost, and counts which expert processes which character.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "experiments/common/methods.h"
#include "train/config/choices.h"

namespace folio::experiments {

struct Method {
  std::string name;
  core::ModelConfig model;
  train::Balance balance = train::Balance::Loss;  ///< balancing of experts; Bias uses sigmoid scores, as in DeepSeek-V3
  double rate = 0.0;                              ///< weight of the balance loss, or step size of the bias; 0: none
  double sequence_loss = 0.0;                     ///< weight of the balance loss of each sequence; 0: none
  RateSearch search{};                            ///< result of the learning rate search on tuning_seeds()
  double lr = 3e-3;                               ///< learning rate; compare() searches around it and sets it
  double step_seconds = 0.0;                      ///< CPU time per step
  int64_t steps_in_time = 0;                      ///< number of steps that take as long as the first method's run
  std::vector<double> judged{};                   ///< validation losses after setting.steps steps, by seed
  std::vector<double> judged_in_time{};           ///< validation losses after steps_in_time, by seed
  std::vector<double> loads{};                    ///< by seed: largest expert load / mean load of any layer
  /// By seed: the number of tokens that a window routes to its most loaded expert, divided by the mean over experts and
  /// averaged over the windows of the validation split; the maximum over layers.
  std::vector<double> window_loads{};
};

/// Returns the method with one feed-forward network of the setting's width.
[[nodiscard]] Method dense(const train::TrainConfig& setting);
/// Returns the method with `n` experts, of which each token uses `chosen`. The experts of a token together are as wide
/// as the dense network.
[[nodiscard]] Method experts(const train::TrainConfig& setting, int64_t n, int64_t chosen,
                             train::Balance balance = train::Balance::Loss, double rate = 0.01);

/// Compares the methods with compare() of common/methods.h on five seeds (two in short form).
void compare(const Report& report, const Shakespeare& text, const train::TrainConfig& setting,
             std::vector<Method>& methods);
/// Trains each method at its rate from five seeds (two in short form). Sets `judged`, `loads` and `window_loads`.
void measure_loads(const Report& report, const Shakespeare& text, const train::TrainConfig& setting,
                   std::vector<Method>& methods);

/// Returns the largest expert load / mean load of a window under random routing, with `chosen` of `n` experts per
/// position, averaged over 10,000 windows.
[[nodiscard]] double random_window_load(int64_t window, int64_t n, int64_t chosen, uint64_t seed);

/// Returns the model of `method` after setting.steps steps at its rate.
[[nodiscard]] nn::Llama trained(const Shakespeare& text, const train::TrainConfig& setting, const Method& method,
                                uint64_t seed);

/// The experts selected for the characters of the validation split in one layer.
struct Choices {
  std::vector<double> share;    ///< [E, V]: fraction of a character's occurrences routed to the expert
  double bits = 0.0;            ///< mutual information of character and selected expert, in bits
  int64_t rows = 0, taken = 0;  ///< number of characters, and of (character, selected expert) pairs
};
[[nodiscard]] std::vector<Choices> choices_of(nn::Llama& model, const Shakespeare& text, int64_t window);

}  // namespace folio::experiments
