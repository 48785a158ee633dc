// Shapes: B sequences, T positions, H heads, K dimensions per head, P = K / 2 pairs.
#include "modules/rope.h"

#include <ATen/OpMathType.h>

#include <utility>

#include "core/error.h"
#include "modules/shapes.h"

namespace folio::nn {

RopeCacheImpl::RopeCacheImpl(int64_t context_length, int64_t head_dim, double theta) {
  core::require(head_dim >= 2 && head_dim % 2 == 0,
                "RopeCache: head_dim is {}, expected an even value >= 2 since RoPE rotates pairs", head_dim);
  core::require(context_length >= 1 && theta > 0,
                "RopeCache: context_length is {} and theta is {}, expected context_length >= 1 and theta > 0",
                context_length, theta);
  // Computed in double: at position 10,000, an angle rounded to float would be off by up to 0.0005.
  const auto frequency_P = torch::pow(theta, -torch::arange(0, head_dim, 2, torch::kDouble) / head_dim);
  const auto angle_TP = torch::outer(torch::arange(context_length, torch::kDouble), frequency_P);
  rotations_ = torch::polar(torch::ones_like(angle_TP), angle_TP);
}

RopeCacheImpl::RopeCacheImpl(torch::Tensor rotations_TP) : rotations_(std::move(rotations_TP)) {
  if (rotations_.dim() != 2 || rotations_.numel() == 0 || rotations_.scalar_type() != torch::kComplexDouble) {
    core::fail("RopeCache: rotations are {}, expected ComplexDouble [context_length, head_dim / 2]",
               describe(rotations_));
  }
}

torch::Tensor RopeCacheImpl::apply(const torch::Tensor& x_BTHK, int64_t first_position) const {
  const int64_t context = rotations_.size(0), head_dim = 2 * rotations_.size(1);
  if (x_BTHK.dim() != 4 || x_BTHK.size(3) != head_dim) {
    core::fail("RopeCache: the input is {}, expected [B, T, heads, {}]", describe(x_BTHK), head_dim);
  }
  const int64_t last = first_position + x_BTHK.size(1);
  if (first_position < 0 || last > context) {
    core::fail("RopeCache: positions are [{}, {}), expected within [0, {})", first_position, last, context);
  }

  // As complex numbers, pairs are rotated by one complex product, which reads memory once; real numbers would take six
  // operations. Half-precision inputs are rotated in float.
  const auto real_type = at::toOpMathType(x_BTHK.scalar_type());
  const auto rotations_TP =
      rotations_.slice(0, first_position, last).to(x_BTHK.device(), c10::toComplexType(real_type));
  const auto pairs_BTHP = torch::view_as_complex(x_BTHK.to(real_type).unflatten(-1, {-1, 2}).contiguous());
  return torch::view_as_real(pairs_BTHP * rotations_TP.unsqueeze(1)).flatten(-2).to(x_BTHK.scalar_type());
}

}  // namespace folio::nn
