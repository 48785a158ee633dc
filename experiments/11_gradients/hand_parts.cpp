// Sizes: B sequences, T positions, D model width, K elements in a head, F hidden width, V vocabulary. All are
// different, so that swapped dimensions are detected; 3 query heads share 1 key/value head.
#include "experiments/11_gradients/hand_parts.h"

#include <torch/csrc/autograd/autograd.h>
#include <torch/utils.h>

#include <cmath>
#include <memory>

#include "core/error.h"
#include "modules/rms_norm.h"
#include "modules/swiglu.h"

namespace folio::experiments::by_hand {
namespace {

constexpr int64_t B = 3, T = 7, D = 30, H = 3, K = 10, F = 17, V = 11, kLayers = 2;
const core::ModelConfig kConfig{.vocab_size = V,
                                .dim = D,
                                .n_layers = kLayers,
                                .n_heads = H,
                                .n_kv_heads = 1,
                                .hidden_dim = F,
                                .context_length = 9};
constexpr int64_t kRest = 10;  // allowance for the rounding errors of elementwise operations, in half ulps

using Tensors = Part::Tensors;
using torch::Tensor;

// Returns the gradients of sum(dy · forward(x)) with respect to x and then `parameters`.
template <typename Forward>
Tensors autograd_of(Forward forward, const Tensor& x, const Tensor& dy, const Tensors& parameters = {}) {
  Tensors leaves{x.detach().clone().requires_grad_()};
  leaves.insert(leaves.end(), parameters.begin(), parameters.end());
  const Tensor y = forward(leaves[0]);
  return torch::autograd::grad({y}, leaves, {dy});
}

// Returns a function that computes autograd's gradients of a module's input and parameters in a given type.
template <typename Module>
std::function<Tensors(torch::Dtype)> autograd_of_module(std::shared_ptr<Module> module, const Tensor& x,
                                                        const Tensor& dy) {
  return [=](torch::Dtype type) {
    module->to(type);
    const auto forward = [&](const Tensor& leaf) { return module->forward(leaf); };
    return autograd_of(forward, x.to(type), dy.to(type), module->parameters());
  };
}

void draw(torch::nn::Module& module, double deviation) {
  const torch::NoGradGuard no_grad;
  for (Tensor& p : module.parameters()) p.normal_(p.dim() == 1 ? 1.0 : 0.0, deviation);
}

Part rms_norm_part(const Tensor& x, const Tensor& dy) {
  const auto norm = nn::RMSNorm(D, kConfig.norm_eps).ptr();
  draw(*norm, 0.5);
  const auto by_hand = [=](torch::Dtype type, Mistake mistake) -> Tensors {
    norm->to(type);
    const auto d = rms_norm_backward(x.to(type), norm->weight, kConfig.norm_eps, dy.to(type), mistake);
    return {d.x, d.weight};
  };
  const auto naive = [=]() -> Tensors {
    norm->to(torch::kDouble);
    return {through(rms_norm_jacobian(x.to(torch::kDouble), norm->weight, kConfig.norm_eps), dy.to(torch::kDouble))};
  };
  return {.name = "RMSNorm",
          .mistake = Mistake::RmsNorm,
          .chain = 2 * D + B * T + kRest,
          .autograd = autograd_of_module(norm, x, dy),
          .by_hand = by_hand,
          .naive = naive,
          .jacobian = B * T * D * D,
          .kept = B * T};  // 1 / rms of each row
}

Part rope_part(const Tensor& x, const Tensor& dy) {
  const auto rope = nn::RopeCache(kConfig.context_length, K, kConfig.rope_theta).ptr();
  const Tensor x_BTHK = x.unflatten(-1, {H, K}), dy_BTHK = dy.unflatten(-1, {H, K});
  const auto autograd = [=](torch::Dtype type) {
    const auto apply = [&](const Tensor& leaf) { return rope->apply(leaf); };
    return autograd_of(apply, x_BTHK.to(type), dy_BTHK.to(type));
  };
  const auto naive = [=]() -> Tensors {
    const Tensor jacobian_T1KK = rope_jacobian(rope->rotations().slice(0, 0, T)).unsqueeze(1);
    return {through(jacobian_T1KK, dy_BTHK.to(torch::kDouble))};
  };
  return {.name = "RoPE",
          .mistake = Mistake::Rope,
          .chain = kRest,
          .autograd = autograd,
          .by_hand = [=](torch::Dtype type, Mistake mistake) -> Tensors {
            return {rope_backward(rope->rotations(), dy_BTHK.to(type), mistake)};
          },
          .naive = naive,
          .jacobian = T* K* K,
          .kept = T* K};  // a cosine and a sine per pair
}

Part attention_part(const Tensor& x, const Tensor& dy) {
  const nn::RopeCache rope(kConfig.context_length, K, kConfig.rope_theta);
  const auto attention = nn::Attention(kConfig, rope).ptr();
  const auto by_hand = [=](torch::Dtype type, Mistake mistake) -> Tensors {
    attention->to(type);
    const auto d = attention_backward(*attention, x.to(type), dy.to(type), mistake);
    return {d.x, d.wq, d.wk, d.wv, d.wo};
  };
  // The naive form covers only the softmax: its Jacobian is applied to random gradients of the attention weights.
  const Tensor dp_BHTT = torch::randn({B, H, T, T}, torch::kDouble);
  const auto weights_BHTT = [=] {
    attention->to(torch::kDouble);
    return attention->weights(x.to(torch::kDouble));
  };
  return {.name = "attention",
          .mistake = Mistake::Softmax,
          // The lengths of all sums on the longest path: projection, score, softmax and value forward; output, value,
          // softmax, score and projection backward.
          .chain = 4 * D + 2 * K + 4 * T + B * T + kRest,
          .autograd = autograd_of_module(attention, x, dy),
          .by_hand = by_hand,
          .naive = [=]() -> Tensors { return {through(softmax_jacobian(weights_BHTT()), dp_BHTT)}; },
          .fast = [=]() -> Tensors { return {softmax_backward(weights_BHTT(), dp_BHTT)}; },
          .jacobian = B* H* T* T* T,
          .kept = B* H* T* T};  // attention weights
}

Part swiglu_part(const Tensor& x, const Tensor& dy) {
  const auto swiglu = nn::SwiGLU(D, F).ptr();
  const auto weight = [=](const char* name) { return swiglu->named_parameters()[name]; };
  const auto by_hand = [=](torch::Dtype type, Mistake mistake) -> Tensors {
    swiglu->to(type);
    const auto d = swiglu_backward(x.to(type), weight("w1.weight"), weight("w2.weight"), weight("w3.weight"),
                                   dy.to(type), mistake);
    return {d.x, d.w1, d.w2, d.w3};
  };
  const auto naive = [=]() -> Tensors {
    swiglu->to(torch::kDouble);
    const Tensor w1 = weight("w1.weight"), w3 = weight("w3.weight");
    const Tensor z = x.to(torch::kDouble).matmul(w1.t()), up = x.to(torch::kDouble).matmul(w3.t());
    // With z = W1 x and up = W3 x: d y / d x = W2 (diag(up) diag(silu'(z)) W1 + diag(silu(z)) W3).
    const Tensor hidden =
        torch::diag_embed(up).matmul(silu_jacobian(z)).matmul(w1) + torch::diag_embed(torch::silu(z)).matmul(w3);
    return {through(weight("w2.weight").matmul(hidden), dy.to(torch::kDouble))};
  };
  return {.name = "SwiGLU",
          .mistake = Mistake::SwiGlu,
          .chain = 2 * D + 2 * F + B * T + kRest,
          .autograd = autograd_of_module(swiglu, x, dy),
          .by_hand = by_hand,
          .naive = naive,
          .jacobian = B * T * D * D,
          .kept = 2 * B * T * F};  // elements of w1 x and w3 x
}

Part cross_entropy_part() {
  const Tensor logits_NV = 2 * torch::randn({B * T, V}), targets_N = torch::randint(V, {B * T});
  const auto autograd = [=](torch::Dtype type) {
    const auto loss = [&](const Tensor& leaf) { return torch::cross_entropy_loss(leaf, targets_N); };
    return autograd_of(loss, logits_NV.to(type), torch::ones({}, type));
  };
  const auto naive = [=]() -> Tensors {
    const Tensor p_NV = logits_NV.to(torch::kDouble).softmax(-1);
    // The gradient of mean(-ln p_y): -1 / (N p_y) at the target, 0 elsewhere.
    const Tensor p_N1 = p_NV.gather(1, targets_N.unsqueeze(1));
    const Tensor dp_NV = torch::zeros_like(p_NV).scatter(1, targets_N.unsqueeze(1), -1 / (p_N1 * (B * T)));
    return {through(softmax_jacobian(p_NV), dp_NV)};
  };
  return {.name = "cross-entropy",
          .mistake = Mistake::CrossEntropy,
          .chain = V + kRest,
          .autograd = autograd,
          .by_hand = [=](torch::Dtype type, Mistake mistake) -> Tensors {
            return {cross_entropy_backward(logits_NV.to(type), targets_N, mistake)};
          },
          .naive = naive,
          .jacobian = B* T* V* V,
          .kept = B* T* V};  // elements of the probabilities p
}

Part model_part(const std::vector<Part>& parts) {
  const auto model = nn::Llama(kConfig).ptr();
  draw(*model, 0.3);  // larger weights than by default, so that no module's contribution is near 0
  const Tensor tokens_BT = torch::randint(V, {B, T}), targets_BT = torch::randint(V, {B, T});
  const auto autograd = [=](torch::Dtype type) {
    model->to(type);
    return torch::autograd::grad({model->loss(tokens_BT, targets_BT)}, model->parameters());
  };
  const auto by_hand = [=](torch::Dtype type, Mistake mistake) {
    model->to(type);
    nn::Llama holder(model);
    const auto by_name = llama_backward(holder, tokens_BT, targets_BT, mistake);
    Tensors gradients;
    for (const auto& parameter : model->named_parameters()) gradients.push_back(by_name.at(parameter.key()));
    return gradients;
  };
  // Rounding errors accumulate forward and backward through two norms, attention and a feed-forward network per layer,
  // the final norm, the output matrix and the loss.
  const int64_t norm = parts[0].chain, attention = parts[2].chain, ffn = parts[3].chain, loss = parts[4].chain;
  return {.name = "whole model",
          .chain = kLayers * (2 * norm + attention + ffn) + norm + D + V + loss,
          .autograd = autograd,
          .by_hand = by_hand};
}

}  // namespace

double Part::limit(torch::Dtype type) const {
  return static_cast<double>(chain) * (type == torch::kDouble ? 0x1p-53 : 0x1p-24);
}

std::vector<Part> make_parts(uint64_t seed) {
  torch::manual_seed(seed);
  const Tensor x_BTD = 2 * torch::randn({B, T, D}), dy_BTD = torch::randn({B, T, D});
  std::vector<Part> parts{rms_norm_part(x_BTD, dy_BTD), rope_part(x_BTD, dy_BTD), attention_part(x_BTD, dy_BTD),
                          swiglu_part(x_BTD, dy_BTD), cross_entropy_part()};
  parts.push_back(model_part(parts));
  for (Part& part : parts) {
    part.by_hand = [by_hand = part.by_hand](torch::Dtype type, Mistake mistake) {
      const torch::NoGradGuard no_grad;
      return by_hand(type, mistake);
    };
    if (!part.fast && part.naive) {
      part.fast = [by_hand = part.by_hand] { return Tensors{by_hand(torch::kDouble, Mistake::None)[0]}; };
    }
  }
  return parts;
}

double relative_error(const Tensors& a, const Tensors& b) {
  core::require(a.size() == b.size(), "{} gradients for {}", a.size(), b.size());
  double largest = 0.0;
  for (size_t i = 0; i < b.size(); ++i) {
    const Tensor truth = b[i].to(torch::kDouble);
    const double error = ((a[i].to(torch::kDouble) - truth).norm() / truth.norm()).item<double>();
    if (!std::isnan(largest) && !(error <= largest)) largest = error;
  }
  return largest;
}

}  // namespace folio::experiments::by_hand
