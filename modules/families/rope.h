// RoPE in families other than Llama: pairs (i, i + d/2) instead of (2i, 2i+1); partial rotation of each head's first
// dimensions; scaled frequencies (core/rope_scaling.h); and separate rotations for layers with a sliding window.
#pragma once

#include "core/model_config.h"
#include "modules/rope.h"

namespace folio::nn {

class FamilyRopeImpl : public RopeCacheImpl {
 public:
  /// Uses `rotations` [context_length, P] for the first 2 P dimensions of each head. The rest of a head is unchanged.
  FamilyRopeImpl(torch::Tensor rotations, core::RopePairs pairs) : RopeCacheImpl(std::move(rotations)), pairs_(pairs) {}

  [[nodiscard]] torch::Tensor apply(const torch::Tensor& x, int64_t first_position = 0) const override;

  RopeCache local{nullptr};  ///< rotations of layers with a window; empty if equal to those of other layers

 private:
  core::RopePairs pairs_;
};

}  // namespace folio::nn
