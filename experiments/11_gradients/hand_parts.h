// Parts of the model, with small random inputs. Their gradients are computed in three ways: by autograd, by hand with
// full Jacobians, and by hand in the efficient form without Jacobians.
#pragma once

#include <torch/types.h>

#include <functional>
#include <string>
#include <vector>

#include "experiments/11_gradients/by_hand.h"

namespace folio::experiments::by_hand {

struct Part {
  using Tensors = std::vector<torch::Tensor>;

  std::string name;
  Mistake mistake = Mistake::None;  ///< the most common mistake in deriving this part's gradient
  /// Number of rounding errors on the longest path from the inputs to a gradient: the total length of the sums on it,
  /// plus 10 for elementwise operations.
  int64_t chain = 0;
  std::function<Tensors(torch::Dtype)> autograd{};          ///< gradients of input and parameters, by autograd
  std::function<Tensors(torch::Dtype, Mistake)> by_hand{};  ///< gradients of input and parameters, derived by hand
  std::function<Tensors()> naive{};  ///< gradient of the input (attention: of the scores), by full Jacobians in double
  std::function<Tensors()> fast{};   ///< the gradient of `naive`, without Jacobians; both are null for the whole model
  int64_t jacobian = 0;              ///< number of elements in the Jacobians
  int64_t kept = 0;                  ///< number of elements that a backward pass without Jacobians keeps instead

  /// Returns an estimated limit on the relative error of a gradient in the given type: `chain` times half an ulp. Not a
  /// strict bound: cancellation in sums raises the relative error, but rounding errors of random sign partly cancel.
  [[nodiscard]] double limit(torch::Dtype type) const;
};

/// Returns RMSNorm, RoPE, attention, SwiGLU, cross-entropy, and a whole model with two layers. Random values are drawn
/// in float, so that the computations in float and in double start from the same values.
[[nodiscard]] std::vector<Part> make_parts(uint64_t seed);

/// Returns the largest ‖a[i] - b[i]‖ / ‖b[i]‖ over all gradients i; NaN if any is NaN.
[[nodiscard]] double relative_error(const Part::Tensors& a, const Part::Tensors& b);

}  // namespace folio::experiments::by_hand
