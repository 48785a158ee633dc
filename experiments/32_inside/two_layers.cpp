// Suffixes of tensor names are dimensions: B sequences, T positions, D model width, H heads, K elements per head.
#include "experiments/32_inside/two_layers.h"

#include <torch/nn/utils/clip_grad.h>
#include <torch/utils.h>

#include <numeric>

#include "core/random.h"
#include "experiments/common/variants.h"
#include "modules/attention.h"
#include "train/step/adamw.h"
#include "train/step/schedule.h"

namespace folio::experiments {
namespace {

using torch::Tensor;

constexpr int64_t kBatch = 32, kMeasured = 64, kEvery = 20;
constexpr uint64_t kHeldOut = 1'000'000;  // index of the batch for evaluation, not used in training

train::TrainConfig setting_of(int64_t n_layers, int64_t steps, uint64_t seed) {
  train::TrainConfig c;
  c.model = {.vocab_size = kVocabulary,
             .dim = 64,
             .n_layers = n_layers,
             .n_heads = kHeads,
             .n_kv_heads = kHeads,
             .context_length = kLength,
             .tie_embeddings = false};
  c.steps = steps;
  c.seed = seed;
  c.lr = 3e-3;
  c.schedule = train::ScheduleKind::Constant;
  c.warmup_steps = 20;
  c.weight_decay = 0.0;
  c.clip = 1.0;
  return c;
}

struct Repetitions {
  Tensor tokens_BT;  // kLength + 1 tokens per row: inputs and, shifted by one, targets
  std::vector<int64_t> periods;
};

Repetitions repetitions(int64_t n, uint64_t seed, uint64_t number) {
  std::vector<int32_t> vocabulary(kVocabulary);
  std::iota(vocabulary.begin(), vocabulary.end(), 0);
  Repetitions batch;
  std::vector<int64_t> all;
  for (int64_t i = 0; i < n; ++i) {
    const uint64_t own = core::random_bits(seed, number * static_cast<uint64_t>(n + 1) + static_cast<uint64_t>(i));
    batch.periods.push_back(kShortest + static_cast<int64_t>(core::random_below(own, 0, kLongest - kShortest + 1)));
    const auto tokens = repeated_tokens(vocabulary, batch.periods.back(), kLength + 1, own + 1);
    all.insert(all.end(), tokens.begin(), tokens.end());
  }
  batch.tokens_BT = torch::tensor(all).view({n, kLength + 1});
  return batch;
}

// Runs an attention-only model with the outputs of the heads `off` set to 0. Appends each layer's attention weights to
// `weights`.
Tensor logits_without(nn::Llama& model, const Tensor& tokens_BT, std::span<const Head> off,
                      std::vector<Tensor>& weights) {
  Tensor x_BTD = model->embed(tokens_BT);
  for (size_t layer = 0; layer < model->blocks().size(); ++layer) {
    nn::BlockParts& parts = model->blocks()[layer]->parts();
    nn::Attention attention = parts.attention.get<nn::Attention>();
    const auto heads = attention->project(parts.attention_norm.forward(x_BTD));
    weights.push_back(attention->weights(heads));
    Tensor y_BHTK = attention->attend(heads);
    for (const Head& one : off) {
      if (one.layer == static_cast<int64_t>(layer)) y_BHTK.select(1, one.head).zero_();
    }
    x_BTD = x_BTD + attention->output(y_BHTK);
  }
  return model->logits(x_BTD);
}

}  // namespace

Measured measure(nn::Llama& model, std::span<const Head> off) {
  const torch::NoGradGuard no_grad;
  const Repetitions batch = repetitions(kMeasured, 0, kHeldOut);
  const Tensor inputs_BT = batch.tokens_BT.slice(1, 0, kLength), targets_BT = batch.tokens_BT.slice(1, 1);
  std::vector<Tensor> weights;
  const Tensor log_p_BTV = logits_without(model, inputs_BT, off, weights).log_softmax(-1);
  const Tensor loss_BT = -log_p_BTV.gather(-1, targets_BT.unsqueeze(-1)).squeeze(-1);

  // Position period - 1 predicts the first repeated token, which is excluded from both means.
  const Tensor t_1T = torch::arange(kLength).unsqueeze(0), period_B1 = torch::tensor(batch.periods).unsqueeze(1);
  Measured m{.early = loss_BT.masked_select(t_1T < period_B1 - 1).mean().item<double>(),
             .late = loss_BT.masked_select(t_1T >= period_B1).mean().item<double>()};
  for (const Tensor& layer_BHTT : weights) {
    for (int64_t h = 0; h < kHeads; ++h) {
      double previous = 0.0, prefix = 0.0;
      for (int64_t b = 0; b < kMeasured; ++b) {
        const Tensor w_TT = layer_BHTT[b][h].contiguous();
        const std::span<const float> w(w_TT.data_ptr<float>(), static_cast<size_t>(w_TT.numel()));
        previous += previous_token_score(w, kLength) / kMeasured;
        prefix += prefix_matching_score(w, kLength, batch.periods[static_cast<size_t>(b)]) / kMeasured;
      }
      m.previous.push_back(previous);
      m.prefix.push_back(prefix);
    }
  }
  return m;
}

Learner train_on_repetitions(int64_t n_layers, int64_t steps, uint64_t seed) {
  const train::TrainConfig setting = setting_of(n_layers, steps, seed);
  Learner learner{.model = seeded_llama(setting.model, seed, blocks_without_feed_forward())};
  nn::Llama& model = learner.model;
  train::AdamW adamw(*model, setting);
  const std::vector<Tensor> parameters = model->parameters();
  for (int64_t step = 0; step <= steps; ++step) {
    if (step % kEvery == 0 || step == steps) {
      learner.course.push_back(measure(model));
      learner.course.back().step = step;
    }
    if (step == steps) break;
    const Tensor tokens_BT = repetitions(kBatch, seed, static_cast<uint64_t>(step)).tokens_BT;
    for (const Tensor& p : parameters) p.mutable_grad() = torch::zeros_like(p);
    model->loss(tokens_BT.slice(1, 0, kLength), tokens_BT.slice(1, 1).contiguous()).backward();
    torch::nn::utils::clip_grad_norm_(parameters, setting.clip);
    adamw.step(train::learning_rate(setting, step));
  }
  return learner;
}

Doubles weights_of(nn::Llama& model, const Head& head, std::span<const int32_t> tokens) {
  const torch::NoGradGuard no_grad;
  std::vector<Tensor> weights;
  const Tensor tokens_1T = torch::tensor(std::vector<int64_t>(tokens.begin(), tokens.end())).unsqueeze(0);
  static_cast<void>(logits_without(model, tokens_1T, {}, weights));
  const Tensor w_TT = weights[static_cast<size_t>(head.layer)][0][head.head].to(torch::kDouble).contiguous();
  return {w_TT.data_ptr<double>(), w_TT.data_ptr<double>() + w_TT.numel()};
}

double largest_difference(nn::Llama& model) {
  const torch::NoGradGuard no_grad;
  const Tensor tokens_BT = repetitions(kMeasured, 0, kHeldOut).tokens_BT.slice(1, 0, kLength);
  std::vector<Tensor> weights;
  return (model->forward(tokens_BT) - logits_without(model, tokens_BT, {}, weights)).abs().max().item<double>();
}

}  // namespace folio::experiments
