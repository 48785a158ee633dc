// Linear layers of one input as one product, y = x [W1; W2; …]ᵀ, and what their low-rank adapters add to its columns:
//   y_i += s_i z_i A_iᵀ B_iᵀ,  z_i = dropped(x).
// Backward, with u_i = s_i dy_i B_i [N, rank]:
//   dx = dy [W1; W2; …] + Σ dropped(u_i A_i),   dB_i = s_i dy_iᵀ (z_i A_iᵀ),   dA_i = u_iᵀ z_i.
// The gradients of frozen weights are not computed.
#pragma once

#include <torch/types.h>

#include <vector>

#include "train/fused/loops.h"
#include "train/fused/operand.h"
#include "train/lora/linear.h"

namespace folio::train::fused {

/// Null where the weight is trained, and where there is no adapter.
[[nodiscard]] const lora::FrozenMatrix* frozen_of(const nn::Linear& layer);
[[nodiscard]] const lora::LowRank* low_rank_of(const nn::Linear& layer);

/// What an adapter adds to the columns [first, first + n) of a product.
struct LowRankPart {
  size_t layer;  ///< of the StackedLinears
  int64_t first, n;
  torch::Tensor a, b;  ///< [rank, k] and [n, rank] of R
  double scale;
  Dropout dropout;  ///< of the input
};

/// The weights of a product for one pass. T is the type of the product, R = Real<T>.
struct Product {
  torch::Tensor weight;  ///< [sum of n_i, k] of T
  std::vector<LowRankPart> low_rank;
};

class StackedLinears {
 public:
  /// `first_site` tells the dropout of these layers from that of others (Dropout's site).
  StackedLinears(std::vector<nn::Linear> layers, uint64_t first_site)
      : layers_(std::move(layers)), first_site_(first_site) {}

  /// The weights in `type`: trained ones are made once for each value, frozen ones anew for each call.
  [[nodiscard]] Product product(torch::ScalarType type, bool training, uint64_t key);

  [[nodiscard]] const std::vector<nn::Linear>& layers() const { return layers_; }
  [[nodiscard]] bool frozen() const { return frozen_of(layers_.front()) != nullptr; }

 private:
  std::vector<nn::Linear> layers_;
  uint64_t first_site_;
  Operand operand_;
};

/// y [N, sum of n_i] of T from x [N, k] of T.
template <typename T>
torch::Tensor multiply(const Product& product, const torch::Tensor& x);

/// dx [N, k] of T from dy [N, sum of n_i] of T.
template <typename T>
torch::Tensor input_gradient(const Product& product, const torch::Tensor& dy);

struct LowRankGradients {
  torch::Tensor a, b;  ///< of R
};
/// Those of product.low_rank, in its order.
template <typename T>
std::vector<LowRankGradients> low_rank_gradients(const Product& product, const torch::Tensor& dy,
                                                 const torch::Tensor& x);

}  // namespace folio::train::fused
