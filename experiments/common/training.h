// A small trainer for studies: a model with replaceable parts, random windows, and the loss on a fixed part of the
// validation split. The same seed gives every variant the same initialization and batches.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "experiments/common/shakespeare.h"
#include "experiments/common/statistics.h"
#include "modules/llama.h"
#include "train/config/train_config.h"
#include "train/report/line_chart.h"

namespace folio::experiments {

/// Returns the setting of most studies: 2 layers, width 64, 4 heads, windows of 32, batches of 16, 300 steps of AdamW
/// at a constant 3e-3 after 20 warm-up steps, gradient clipping to norm 1, no weight decay.
[[nodiscard]] train::TrainConfig small_setting(const Shakespeare& text);

/// Returns small_setting() with `steps` steps, evaluated only at the end, in which the learning rate decays to a tenth
/// along a cosine: a constant rate would end with noisier weights.
[[nodiscard]] train::TrainConfig decaying_setting(const Shakespeare& text, int64_t steps);

/// The parts of a model; null selects Llama's own parts.
using ModelParts = std::shared_ptr<const nn::Parts>;

/// Changes a model after its initialization.
using Prepare = std::function<void(nn::Llama& model)>;

/// Returns a model whose initialization depends only on the seed, on its parameters' shapes and on `prepare`, which may
/// use LibTorch's global random generator. Thread-safe.
[[nodiscard]] nn::Llama seeded_llama(const core::ModelConfig& config, uint64_t seed, ModelParts parts = {},
                                     const Prepare& prepare = {});

/// A function that takes an optimizer step with the parameters' current gradients.
using Update = std::function<void(double lr)>;

/// Maps a batch's loss to the tensor on which backward() is called, such as the loss plus an auxiliary loss.
using Objective = std::function<torch::Tensor(const torch::Tensor& loss)>;

struct Training {
  std::vector<double> losses{};  ///< loss of each step's batch, before the update
  /// Validation losses at step 0, every eval_every steps, and at the end.
  std::vector<train::LineChart::Point> validation{};
  double validation_loss = 0.0;  ///< final validation loss; NaN if training stopped at a non-finite loss
};

/// Trains a model with these settings of `config`: steps, batch_size, window, eval_every, clip, seed and the learning
/// rate schedule (train::learning_rate()). If empty, `update` is a step of train::AdamW(model, config), and `objective`
/// is the loss itself.
Training train_model(nn::Llama& model, const Shakespeare& text, const train::TrainConfig& config, Update update = {},
                     const Objective& objective = {});

/// Number of tokens from the start of the validation split over which validation_loss() averages the loss.
inline constexpr int64_t kValidationTokens = 32'768;
[[nodiscard]] double validation_loss(nn::Llama& model, const Shakespeare& text, int64_t window);

/// Returns the mean loss at each of the `window` positions of a window, over the same tokens as validation_loss().
[[nodiscard]] std::vector<double> position_losses(nn::Llama& model, const Shakespeare& text, int64_t window);

/// Copies all parameters. Both models must have parameters of the same names and shapes.
void copy_parameters(const nn::Llama& from, nn::Llama& to);

/// Returns the prompt followed by n generated tokens. sample_tokens() draws them from the softmax of the logits, with
/// random numbers that depend only on the seed and the token's index. greedy_tokens() selects the most likely token at
/// each step. The model's input is the last `window` tokens.
[[nodiscard]] std::vector<int32_t> sample_tokens(nn::Llama& model, std::vector<int32_t> prompt, int64_t n,
                                                 int64_t window, uint64_t seed);
[[nodiscard]] std::vector<int32_t> greedy_tokens(nn::Llama& model, std::vector<int32_t> prompt, int64_t n,
                                                 int64_t window);

}  // namespace folio::experiments
