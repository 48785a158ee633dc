// Root-mean-square normalization over the last dimension: each position is divided by its own root mean square,
// independently of the others.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

namespace folio::nn {

/// y = x / sqrt(mean(x²) + eps) · weight, with the mean over the last dimension.
/// Source: Zhang & Sennrich, "Root Mean Square Layer Normalization", 2019, equation 4; eps as in Llama.
class RMSNormImpl : public torch::nn::Module {
 public:
  /// `dim` is the size of the last dimension. Throws core::Error unless dim >= 1 and eps >= 0.
  explicit RMSNormImpl(int64_t dim, double eps = 1e-5);

  /// x [..., dim] to [..., dim]. Throws core::Error if the last dimension has another size.
  torch::Tensor forward(const torch::Tensor& x);

  torch::Tensor weight;  ///< [dim], initially ones

 private:
  double eps_;
};
TORCH_MODULE(RMSNorm);

}  // namespace folio::nn
