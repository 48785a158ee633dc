// Shapes: N rows, D model width, E experts, K of them for a row, F an expert's width.
#include "modules/families/experts.h"

#include <utility>

#include "modules/families/feed_forward.h"

namespace folio::nn {

using torch::Tensor;

ExpertsImpl::ExpertsImpl(int64_t n, const core::ModelConfig& config, ExpertProducts products)
    : gate_(core::info(config.family).gate), products_(std::move(products)), w1_(nullptr), w3_(nullptr), w2_(nullptr) {
  const int64_t D = config.dim, F = config.expert_dim;
  w1_ = register_module("w1", NamedTensor("weight", torch::zeros({n, F, D})));
  w3_ = register_module("w3", NamedTensor("weight", torch::zeros({n, F, D})));
  w2_ = register_module("w2", NamedTensor("weight", torch::zeros({n, D, F})));
  if (!core::info(config.family).mixture.biases) return;
  w1_->add_bias(torch::zeros({n, F}));
  w3_->add_bias(torch::zeros({n, F}));
  w2_->add_bias(torch::zeros({n, D}));
}

Tensor ExpertsImpl::forward(const Tensor& x_ND, const Tensor& experts_NK, const Tensor& weights_NK) {
  // Without rows gradients are 0, and there: who waits for them cannot know.
  if (x_ND.size(0) == 0) {
    Tensor y_ND = x_ND;
    for (const NamedTensor& w : {w1_, w3_, w2_}) {
      y_ND = y_ND + 0.0 * w->value.sum();
      if (w->bias.defined()) y_ND = y_ND + 0.0 * w->bias.sum();
    }
    return y_ND;
  }
  if (products_) {
    const Tensor y_ND = products_(x_ND, experts_NK, weights_NK, w1_->value, w3_->value, w2_->value);
    if (y_ND.defined()) return y_ND;
  }
  auto y_ND = torch::zeros_like(x_ND);
  for (int64_t e = 0; e < w1_->value.size(0); ++e) {
    const auto at = (experts_NK == e).nonzero();  // [n, 2]: rows that chose it, and where in theirs
    if (at.size(0) == 0) continue;
    const auto rows_n = at.select(1, 0);
    const auto x_nD = x_ND.index_select(0, rows_n);
    const auto product = [&](const Tensor& x, const NamedTensor& w) {
      return torch::linear(x, w->value[e], w->bias.defined() ? w->bias[e] : Tensor());
    };
    const auto hidden_nF = gated(gate_, product(x_nD, w1_), product(x_nD, w3_));
    const auto weight_n = weights_NK.index({rows_n, at.select(1, 1)});
    const auto out_nD = product(hidden_nF, w2_) * weight_n.unsqueeze(-1);
    y_ND = y_ND.index_add(0, rows_n, out_nD.to(y_ND.scalar_type()));
  }
  return y_ND;
}

}  // namespace folio::nn
