// The gates of feed-forward networks (core::Gate). Silu: silu(z) ⊙ up. Gelu: gelu(z) ⊙ up with the tanh approximation
// (GeGLU; Shazeer, 2020). Clamped: z sigmoid(1.702 z) ⊙ (up + 1), with z clamped to <= 7 and up to ±7 (gpt-oss, 2025).
#pragma once

#include <torch/types.h>

#include "core/families.h"

namespace folio::nn {

/// Returns the gated activation of z and up, which have the same shape.
[[nodiscard]] inline torch::Tensor gated(core::Gate gate, const torch::Tensor& z, const torch::Tensor& up) {
  if (gate == core::Gate::Silu) return torch::silu(z) * up;
  if (gate == core::Gate::Gelu) return torch::gelu(z, "tanh") * up;
  const double limit = core::kGateLimit;
  const auto most = z.clamp_max(limit);
  return most * torch::sigmoid(static_cast<double>(core::kGateSlope) * most) * (up.clamp(-limit, limit) + 1);
}

}  // namespace folio::nn
