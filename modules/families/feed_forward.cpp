#include "modules/families/feed_forward.h"

namespace folio::nn {

torch::Tensor gated(core::Gate gate, const torch::Tensor& z, const torch::Tensor& up) {
  if (gate == core::Gate::Silu) return torch::silu(z) * up;
  if (gate == core::Gate::Gelu) return torch::gelu(z, "tanh") * up;
  const double limit = core::kGateLimit;
  const auto most = z.clamp_max(limit);
  return most * torch::sigmoid(static_cast<double>(core::kGateSlope) * most) * (up.clamp(-limit, limit) + 1);
}

}  // namespace folio::nn
