// Root-mean-square normalization over the last dimension: each position is divided by its own root mean square.
//
//     y = x / √(mean(x²) + eps) · weight            x, y [..., dim], weight [dim]
//
//     nn::RMSNorm norm(config.dim, config.norm_eps);
//     torch::Tensor y = norm->forward(x);
//
// Source: Zhang & Sennrich, "Root Mean Square Layer Normalization", 2019, equation 4; eps as in Llama.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

namespace folio::nn {

class RMSNormImpl : public torch::nn::Module {
 public:
  /// Throws core::Error unless dim >= 1 and eps >= 0.
  explicit RMSNormImpl(int64_t dim, double eps = 1e-5);

  /// Normalizes x [..., dim] over its last dimension. Throws core::Error if that dimension is not dim.
  torch::Tensor forward(const torch::Tensor& x);
  [[nodiscard]] double eps() const { return eps_; }

  torch::Tensor weight;  ///< [dim], initially ones

 private:
  double eps_;
};
TORCH_MODULE(RMSNorm);

}  // namespace folio::nn
