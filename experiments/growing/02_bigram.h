// Rung 2: the bigram table of rung 1, learned by gradient descent. The batch, the loss, the training loop and sampling
// are used by all later rungs and work for any model that maps characters to logits.
// Shapes: B windows in a batch, T positions in a window, V characters. A tensor's name ends with its shape.
#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <functional>

#include "core/random.h"
#include "experiments/growing/01_counts.h"

namespace folio::growing {

using torch::Tensor;

struct Setting {
  int64_t B = 16, T = 32;
  int64_t steps = 800;
  int64_t evaluate_every = 100;
  uint64_t seed = 1;
};

// Windows of text, and the same windows shifted by one character: the target at each position.
struct Batch {
  Tensor inputs_BT, targets_BT;
};

// Returns B windows at random offsets in the text. The offsets depend only on the seed and the step.
inline Batch random_batch(Text text, const Setting& s, int64_t step) {
  std::vector<int64_t> inputs, targets;
  for (int64_t b = 0; b < s.B; ++b) {
    const auto start = text.begin() + core::random_below(s.seed, step * s.B + b, text.size() - s.T);
    inputs.insert(inputs.end(), start, start + s.T);
    targets.insert(targets.end(), start + 1, start + 1 + s.T);
  }
  return {torch::tensor(inputs).view({s.B, s.T}), torch::tensor(targets).view({s.B, s.T})};
}

// Maps characters [B, T] to logits [B, T, V]: a score for each possible next character. The logits at position t may
// depend only on characters 0 to t.
struct Model : torch::nn::Module {
  virtual Tensor forward(const Tensor& tokens_BT) = 0;
};

// The bigram model: row h of the table holds the logits of the character after h.
struct Bigram : Model {
  Tensor table_VV;

  explicit Bigram(int64_t V) { table_VV = register_parameter("table", torch::zeros({V, V})); }

  Tensor forward(const Tensor& tokens_BT) override { return torch::embedding(table_VV, tokens_BT); }  // [B, T, V]
};

// Returns the mean of -ln p(target) with p = softmax(logits), where softmax(z)[w] = e^z[w] / the sum of e^z over V.
inline Tensor cross_entropy(const Tensor& logits_BTV, const Tensor& targets_BT) {
  const Tensor log_p_BTV = logits_BTV - logits_BTV.logsumexp(-1, /*keepdim=*/true);
  const Tensor log_p_BT = log_p_BTV.gather(-1, targets_BT.unsqueeze(-1)).squeeze(-1);
  return -log_p_BT.mean();
}

// Moves each parameter against its gradient, which points in the direction of increasing loss: gradient descent.
inline void descend(const std::vector<Tensor>& parameters, double rate) {
  const torch::NoGradGuard no_grad;
  for (const Tensor& p : parameters) p.sub_(rate * p.grad());
}

using Forward = std::function<Tensor(const Tensor& tokens_BT)>;

// Returns the mean loss on held-out text, cut into consecutive windows of T characters.
inline double validation_loss(const Forward& forward, Text text, int64_t T) {
  const torch::NoGradGuard no_grad;
  const auto W = static_cast<int64_t>(text.size() - 1) / T;  // number of windows
  const Tensor all = torch::tensor(std::vector<int64_t>(text.begin(), text.end()));
  const Tensor inputs_WT = all.narrow(0, 0, W * T).view({W, T}), targets_WT = all.narrow(0, 1, W * T).view({W, T});
  return cross_entropy(forward(inputs_WT), targets_WT).item<double>();
}

struct Training {
  std::vector<double> losses{};      // loss of each step's batch, before the update
  std::vector<double> validation{};  // validation loss every evaluate_every steps, and after the last step
};

// Trains a model: for each step, computes the loss of a random batch and all gradients, and calls `take_step` to apply
// them, for example [&](int64_t step) { descend(parameters, 0.5); }.
inline Training train_model(const Forward& forward, const std::vector<Tensor>& parameters, Text text, Text validation,
                            const Setting& s, const std::function<void(int64_t step)>& take_step) {
  Training result;
  for (int64_t step = 0; step < s.steps; ++step) {
    if (step % s.evaluate_every == 0) result.validation.push_back(validation_loss(forward, validation, s.T));
    const auto [inputs_BT, targets_BT] = random_batch(text, s, step);
    const Tensor loss = cross_entropy(forward(inputs_BT), targets_BT);
    for (const Tensor& p : parameters) p.mutable_grad() = torch::zeros_like(p);
    loss.backward();  // LibTorch's autograd fills p.grad() of every parameter p
    take_step(step);
    result.losses.push_back(loss.item<double>());
  }
  result.validation.push_back(validation_loss(forward, validation, s.T));
  return result;
}

// Appends n characters, each drawn from the softmax of the last position's logits. The model's input is the last T
// characters.
inline std::vector<int32_t> sample(const Forward& forward, std::vector<int32_t> tokens, int64_t n, int64_t T,
                                   uint64_t seed) {
  const torch::NoGradGuard no_grad;
  for (int64_t i = 0; i < n; ++i) {
    const auto seen = std::min<int64_t>(T, static_cast<int64_t>(tokens.size()));
    const Tensor tokens_1T = torch::tensor(std::vector<int64_t>(tokens.end() - seen, tokens.end())).unsqueeze(0);
    const Tensor p_V = forward(tokens_1T)[0][-1].to(torch::kDouble).softmax(-1);
    double uniform = core::random_uniform(seed, i);
    int64_t w = 0;
    while (w < p_V.size(0) - 1 && (uniform -= p_V.data_ptr<double>()[w]) >= 0.0) ++w;
    tokens.push_back(static_cast<int32_t>(w));
  }
  return tokens;
}

}  // namespace folio::growing
