// Suffixes of tensor names are dimensions: B sequences, T positions, V vocabulary.
#include "experiments/common/training.h"

#include <torch/nn/utils/clip_grad.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>

#include "core/error.h"
#include "core/random.h"
#include "data/batches.h"
#include "train/step/adamw.h"
#include "train/step/evaluate.h"
#include "train/step/schedule.h"

namespace folio::experiments {
namespace {

std::span<const int32_t> validation_part(const Shakespeare& text) {
  return text.splits.validation.first(kValidationTokens + 1);  // one more for the last target
}

// Returns `tokens` followed by n generated tokens, the i-th of which pick(logits [V], i) selects. The model's input is
// the last `window` tokens.
template <typename Pick>
std::vector<int32_t> continued(nn::Llama& model, std::vector<int32_t> tokens, int64_t n, int64_t window, Pick pick) {
  const torch::NoGradGuard no_grad;
  for (int64_t i = 0; i < n; ++i) {
    const auto length = std::min<int64_t>(window, static_cast<int64_t>(tokens.size()));
    const torch::Tensor seen_1T = torch::tensor(std::vector<int64_t>(tokens.end() - length, tokens.end())).unsqueeze(0);
    tokens.push_back(static_cast<int32_t>(pick(model->forward(seen_1T)[0][-1], i)));
  }
  return tokens;
}

}  // namespace

train::TrainConfig small_setting(const Shakespeare& text) {
  train::TrainConfig c;
  c.model = {.vocab_size = text.vocab_size,
             .dim = 64,
             .n_layers = 2,
             .n_heads = 4,
             .n_kv_heads = 4,
             .hidden_dim = 176,
             .context_length = 32};
  c.steps = 300;
  c.batch_size = 16;
  c.window = 32;
  c.lr = 3e-3;
  c.schedule = train::ScheduleKind::Constant;
  c.warmup_steps = 20;
  c.weight_decay = 0.0;
  c.clip = 1.0;
  c.eval_every = 50;
  return c;
}

train::TrainConfig decaying_setting(const Shakespeare& text, int64_t steps) {
  train::TrainConfig c = small_setting(text);
  c.steps = c.eval_every = steps;
  c.schedule = train::ScheduleKind::Cosine;
  c.min_lr = c.lr / 10.0;
  return c;
}

nn::Llama seeded_llama(const core::ModelConfig& config, uint64_t seed, ModelParts parts, const Prepare& prepare) {
  static std::mutex generator;  // guards LibTorch's global random generator: models may be built concurrently
  const std::lock_guard lock(generator);
  nn::Llama model = parts ? nn::Llama(config, std::move(parts)) : nn::Llama(config);
  // Initialize again, because constructing the parts draws a different number of random values in each variant.
  torch::manual_seed(seed);
  nn::initialize(*model, config.n_layers);
  if (prepare) prepare(model);
  return model;
}

Training train_model(nn::Llama& model, const Shakespeare& text, const train::TrainConfig& config, Update update,
                     const Objective& objective) {
  train::AdamW adamw(*model, config);
  if (!update) update = [&](double lr) { adamw.step(lr); };
  const std::vector<torch::Tensor> parameters = model->parameters();
  const data::BatchSampler batches(text.splits.train, config.batch_size, config.window, config.seed);
  Training result;
  model->train();
  for (int64_t step = 0; step <= config.steps; ++step) {
    if (step % config.eval_every == 0 || step == config.steps) {
      result.validation_loss = validation_loss(model, text, config.window);
      result.validation.push_back({static_cast<double>(step), result.validation_loss});
    }
    if (step == config.steps) break;
    const auto batch = train::to_tensors(batches.batch(static_cast<uint64_t>(step)), torch::kCPU);
    for (const torch::Tensor& p : parameters) p.mutable_grad() = torch::zeros_like(p);
    const torch::Tensor loss = model->loss(batch.inputs_BT, batch.targets_BT);
    result.losses.push_back(loss.item<double>());
    if (!std::isfinite(result.losses.back())) {
      result.validation_loss = std::numeric_limits<double>::quiet_NaN();
      break;
    }
    (objective ? objective(loss) : loss).backward();
    if (config.clip > 0.0) torch::nn::utils::clip_grad_norm_(parameters, config.clip);
    update(train::learning_rate(config, step));
  }
  return result;
}

double validation_loss(nn::Llama& model, const Shakespeare& text, int64_t window) {
  return train::split_loss(model, validation_part(text), window, torch::kCPU);
}

std::vector<double> position_losses(nn::Llama& model, const Shakespeare& text, int64_t window) {
  const torch::NoGradGuard no_grad;
  const auto tokens = validation_part(text);
  const int64_t windows = data::consecutive_windows(tokens, window);
  constexpr int64_t kTokensAtOnce = 4096;
  const int64_t at_once = std::max<int64_t>(1, kTokensAtOnce / window);
  torch::Tensor sum_T = torch::zeros(window, torch::kDouble);
  for (int64_t first = 0; first < windows; first += at_once) {
    const int64_t rows = std::min(at_once, windows - first);
    const auto batch = train::to_tensors(data::consecutive_batch(tokens, first, rows, window), torch::kCPU);
    const torch::Tensor log_p_BTV = model->forward(batch.inputs_BT).log_softmax(-1);
    sum_T -= log_p_BTV.gather(-1, batch.targets_BT.unsqueeze(-1)).squeeze(-1).to(torch::kDouble).sum(0);
  }
  const torch::Tensor mean_T = (sum_T / static_cast<double>(windows)).contiguous();
  return {mean_T.data_ptr<double>(), mean_T.data_ptr<double>() + window};
}

void copy_parameters(const nn::Llama& from, nn::Llama& to) {
  const torch::NoGradGuard no_grad;
  const auto source = from->named_parameters();
  auto target = to->named_parameters();
  core::require(source.size() == target.size(), "copy_parameters: {} parameters for {}", source.size(), target.size());
  for (auto& parameter : target) parameter->copy_(source[parameter.key()]);
}

std::vector<int32_t> sample_tokens(nn::Llama& model, std::vector<int32_t> prompt, int64_t n, int64_t window,
                                   uint64_t seed) {
  return continued(model, std::move(prompt), n, window, [seed](const torch::Tensor& logits_V, int64_t i) {
    const torch::Tensor sum_V = logits_V.softmax(-1).to(torch::kDouble).cumsum(0);
    // Select the first token whose cumulative probability exceeds the draw.
    const double draw = core::random_uniform(seed, static_cast<uint64_t>(i)) * sum_V[-1].item<double>();
    return (sum_V <= draw).sum().item<int64_t>();
  });
}

std::vector<int32_t> greedy_tokens(nn::Llama& model, std::vector<int32_t> prompt, int64_t n, int64_t window) {
  return continued(model, std::move(prompt), n, window,
                   [](const torch::Tensor& logits_V, int64_t) { return logits_V.argmax().item<int64_t>(); });
}

}  // namespace folio::experiments
