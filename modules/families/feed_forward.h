// Other gates of the feed-forward network (core::Gate): gelu in place of silu, GeGLU (Shazeer, 2020), and the clamped
// one of gpt-oss.
#pragma once

#include "core/families.h"
#include "modules/swiglu.h"

namespace folio::nn {

/// silu(z) ⊙ up, or gelu(z) ⊙ up, as tanh approximates it; or z sigmoid(1.702 z) ⊙ (up + 1), once z is at most 7 and up
/// within [-7, 7] (gpt-oss, 2025). The shapes are equal.
[[nodiscard]] torch::Tensor gated(core::Gate gate, const torch::Tensor& z, const torch::Tensor& up);

class GatedFeedForwardImpl : public SwiGLUImpl {
 public:
  GatedFeedForwardImpl(core::Gate gate, int64_t dim, int64_t hidden_dim, const Linears& linears,
                       const std::string& name)
      : SwiGLUImpl(dim, hidden_dim, linears, name), gate_(gate) {}

 protected:
  [[nodiscard]] torch::Tensor gated(const torch::Tensor& z, const torch::Tensor& up) const override {
    return nn::gated(gate_, z, up);
  }

 private:
  core::Gate gate_;
};

}  // namespace folio::nn
