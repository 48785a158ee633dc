// Shapes: B sequences, T positions, H heads, K numbers in a head, P = K / 2 pairs.
#include "modules/rope.h"

#include <ATen/OpMathType.h>

#include <utility>

#include "core/error.h"
#include "modules/shapes.h"

namespace folio::nn {

RopeCacheImpl::RopeCacheImpl(int64_t context_length, int64_t head_dim, double theta) {
  core::require(head_dim >= 2 && head_dim % 2 == 0,
                "RopeCache: head_dim has to be even and at least 2, since pairs are rotated, but is {}", head_dim);
  core::require(context_length >= 1 && theta > 0,
                "RopeCache: context_length has to be at least 1 and theta positive, but they are {} and {}",
                context_length, theta);
  // In double: at position 10,000 an angle rounded to float would be off by up to 0.0005.
  const auto frequency_P = torch::pow(theta, -torch::arange(0, head_dim, 2, torch::kDouble) / head_dim);
  const auto angle_TP = torch::outer(torch::arange(context_length, torch::kDouble), frequency_P);
  rotations_ = torch::polar(torch::ones_like(angle_TP), angle_TP);
}

RopeCacheImpl::RopeCacheImpl(torch::Tensor rotations_TP) : rotations_(std::move(rotations_TP)) {
  if (rotations_.dim() != 2 || rotations_.numel() == 0 || rotations_.scalar_type() != torch::kComplexDouble) {
    core::fail("RopeCache: rotations have to be ComplexDouble [context_length, head_dim / 2], but are {}",
               describe(rotations_));
  }
}

torch::Tensor RopeCacheImpl::apply(const torch::Tensor& x_BTHK, int64_t first_position) const {
  const int64_t context = rotations_.size(0), head_dim = 2 * rotations_.size(1);
  if (x_BTHK.dim() != 4 || x_BTHK.size(3) != head_dim) {
    core::fail("RopeCache: the input has to be [B, T, heads, {}], but is {}", head_dim, describe(x_BTHK));
  }
  const int64_t last = first_position + x_BTHK.size(1);
  if (first_position < 0 || last > context) {
    core::fail("RopeCache: positions have to be in [0, {}), but are [{}, {})", context, first_position, last);
  }

  // A pair is a complex number, and a rotation a complex product. That reads memory once, where the formula in real
  // numbers takes six operations. Half types are rotated in float.
  const auto real_type = at::toOpMathType(x_BTHK.scalar_type());
  const auto rotations_TP =
      rotations_.slice(0, first_position, last).to(x_BTHK.device(), c10::toComplexType(real_type));
  const auto pairs_BTHP = torch::view_as_complex(x_BTHK.to(real_type).unflatten(-1, {-1, 2}).contiguous());
  return torch::view_as_real(pairs_BTHP * rotations_TP.unsqueeze(1)).flatten(-2).to(x_BTHK.scalar_type());
}

}  // namespace folio::nn
