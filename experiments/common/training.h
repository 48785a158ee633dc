// A small trainer for studies: a model whose blocks a study chose, random windows, a loss on a fixed part of the
// validation split. The same seed gives every variant the same first values and the same batches.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "experiments/common/shakespeare.h"
#include "modules/llama.h"
#include "train/report/line_chart.h"
#include "train/config/train_config.h"

namespace folio::experiments {

/// The setting of most studies: 2 layers, width 64, 4 heads, windows of 32, batches of 16, 300 steps of AdamW at a
/// constant 3e-3 after 20 steps of warm-up, gradients clipped to norm 1, no weight decay.
[[nodiscard]] train::TrainConfig small_setting(const Shakespeare& text);

/// What a model is made of; null: Llama's parts.
using ModelParts = std::shared_ptr<const nn::Parts>;

/// A model whose first values depend on the seed and on its list of parameters alone. May be called by several threads.
[[nodiscard]] nn::Llama seeded_llama(const core::ModelConfig& config, uint64_t seed, ModelParts parts = {});

/// Takes one step with the gradients that are there.
using Update = std::function<void(double lr)>;

/// What is gone back through, from the batch's loss: more than that, where there is an auxiliary one.
using Objective = std::function<torch::Tensor(const torch::Tensor& loss)>;

struct Training {
  std::vector<double> losses{};  ///< of each step's batch, before its update
  /// Validation losses at step 0, eval_every, …, and at the end.
  std::vector<train::LineChart::Point> validation{};
  double validation_loss = 0.0;  ///< at the end; not a number where the training diverged
  bool diverged = false;         ///< a loss was not finite, and the training stopped there
};

/// Trains by config.{steps, batch_size, window, eval_every, clip, seed} and train::learning_rate(config, step).
/// `update` replaces the default, train::AdamW(model, config).
Training train_model(nn::Llama& model, const Shakespeare& text, const train::TrainConfig& config, Update update = {},
                     const Objective& objective = {});

/// The mean loss over the first kValidationTokens of the validation split, in consecutive windows.
inline constexpr int64_t kValidationTokens = 32'768;
[[nodiscard]] double validation_loss(nn::Llama& model, const Shakespeare& text, int64_t window);

/// The mean loss at each position of the window, over the same tokens: [window].
[[nodiscard]] std::vector<double> position_losses(nn::Llama& model, const Shakespeare& text, int64_t window);

/// Copies the values of all parameters, which have to have the same names and shapes in both models.
void copy_parameters(const nn::Llama& from, nn::Llama& to);

/// Draws n tokens after the prompt, each from the softmax of the last logits, or takes the likeliest each time. The
/// model sees the last `window` tokens. A draw is a function of the seed and the place. Returns the prompt and the
/// rest.
[[nodiscard]] std::vector<int32_t> sample_tokens(nn::Llama& model, std::vector<int32_t> prompt, int64_t n,
                                                 int64_t window, uint64_t seed);
[[nodiscard]] std::vector<int32_t> greedy_tokens(nn::Llama& model, std::vector<int32_t> prompt, int64_t n,
                                                 int64_t window);

/// The mean of some values.
[[nodiscard]] double mean_of(std::span<const double> values);

}  // namespace folio::experiments
