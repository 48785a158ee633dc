// The rotations of families: pairs of halves, (i, i + d/2) in place of (2i, 2i+1); a part of each head alone, its first
// numbers; scaled frequencies (core/rope_scaling.h); and for layers with a window, rotations of their own.
#pragma once

#include "core/model_config.h"
#include "modules/rope.h"

namespace folio::nn {

class FamilyRopeImpl : public RopeCacheImpl {
 public:
  /// As many pairs as `rotations` has are rotated of each head, or all that a head has.
  FamilyRopeImpl(torch::Tensor rotations, core::RopePairs pairs) : RopeCacheImpl(std::move(rotations)), pairs_(pairs) {}

  [[nodiscard]] torch::Tensor apply(const torch::Tensor& x, int64_t first_position = 0) const override;

  RopeCache local{nullptr};  ///< of layers with a window; empty: as the others

 private:
  core::RopePairs pairs_;
};

}  // namespace folio::nn
