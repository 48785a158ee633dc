// The gate of the feed-forward network (core::Gate): silu(z) ⊙ up; or gelu(z) ⊙ up, as tanh approximates it (GeGLU;
// Shazeer, 2020); or z sigmoid(1.702 z) ⊙ (up + 1), once z is at most 7 and up within [-7, 7] (gpt-oss, 2025).
#pragma once

#include <torch/types.h>

#include "core/families.h"

namespace folio::nn {

/// z and up have one shape.
[[nodiscard]] inline torch::Tensor gated(core::Gate gate, const torch::Tensor& z, const torch::Tensor& up) {
  if (gate == core::Gate::Silu) return torch::silu(z) * up;
  if (gate == core::Gate::Gelu) return torch::gelu(z, "tanh") * up;
  const double limit = core::kGateLimit;
  const auto most = z.clamp_max(limit);
  return most * torch::sigmoid(static_cast<double>(core::kGateSlope) * most) * (up.clamp(-limit, limit) + 1);
}

}  // namespace folio::nn
