// The experts of a mixture: SwiGLUs of one size, or with another gate (feed_forward.h), whose matrices are stacked.
//
//     y = Σ g_e w2_e (silu(w1_e x) ⊙ w3_e x) over the K experts that a row x takes, with weights g
#pragma once

#include <functional>

#include "core/model_config.h"
#include "modules/families/named_tensor.h"

namespace folio::nn {

/// Σ over each row's experts, [N, D], of x [N, D], experts and weights [N, K], and the stacks w1, w3 and w2; or an
/// undefined tensor where it has no form for these.
using ExpertProducts =
    std::function<torch::Tensor(const torch::Tensor& x, const torch::Tensor& experts, const torch::Tensor& weights,
                                const torch::Tensor& w1, const torch::Tensor& w3, const torch::Tensor& w2)>;

class ExpertsImpl : public torch::nn::Module {
 public:
  /// `n` of the configuration's experts. Without `products` the formula is computed expert by expert.
  ExpertsImpl(int64_t n, const core::ModelConfig& config, ExpertProducts products);

  /// Of x [N, D], int64 experts [N, K] and their weights [N, K], to [N, D].
  torch::Tensor forward(const torch::Tensor& x, const torch::Tensor& experts, const torch::Tensor& weights);

 private:
  core::Gate gate_;
  ExpertProducts products_;
  NamedTensor w1_, w3_, w2_;  ///< [n, F, D], and w2 [n, D, F]; biases [n, F] and [n, D] in families that have them
};
TORCH_MODULE(Experts);

}  // namespace folio::nn
