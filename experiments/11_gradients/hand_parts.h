// The parts whose backward passes are written by hand, each on a small random problem and in three ways: autograd of
// the module, the naive form with full Jacobians, and the form that is used.
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
  Mistake mistake = Mistake::None;  ///< the part's own
  /// Roundings on the longest way from the inputs to a gradient: the lengths of the sums on it, and 10 for the rest.
  int64_t chain = 0;
  std::function<Tensors(torch::Dtype)> autograd{};          ///< the gradients of the input and of the parameters
  std::function<Tensors(torch::Dtype, Mistake)> by_hand{};  ///< the same
  std::function<Tensors()> naive{};  ///< the first of them (of attention: of the scores), in double, with Jacobians
  std::function<Tensors()> fast{};   ///< and without
  int64_t jacobian = 0;              ///< numbers in the Jacobians
  int64_t kept = 0;                  ///< numbers that the fast form needs in their place

  /// The bound on the relative error that so many roundings can add up to, if no sum cancels by more than what random
  /// roundings save.
  [[nodiscard]] double limit(torch::Dtype type) const;
};

/// RMSNorm, RoPE, attention, SwiGLU, cross-entropy, and a whole model of two layers. All numbers are drawn in float,
/// so that both types begin with the same.
[[nodiscard]] std::vector<Part> make_parts(uint64_t seed);

/// The largest of ‖a - b‖ / ‖b‖ over pairs of gradients; not a number where one is not.
[[nodiscard]] double relative_error(const Part::Tensors& a, const Part::Tensors& b);

}  // namespace folio::experiments::by_hand
