// A stage's weights on a GPU. They are packed on the host's threads and streamed to the device, a piece being packed
// while the one before it is on its way.
#pragma once

#include <functional>
#include <vector>

#include "core/thread_pool.h"
#include "core/weights.h"
#include "infer/cuda/device.h"
#include "infer/cuda/layout.h"
#include "infer/forward/machine.h"

namespace folio::infer {

class CudaWeights {
 public:
  /// Gets the bytes that are on the device, and those that will be.
  using Progress = std::function<void(uint64_t done, uint64_t total)>;

  /// Loads what the layers need. Throws core::Error if a tensor is of a type that weights don't have, or, with the
  /// sizes, if `free_bytes` are too few for all.
  CudaWeights(const core::StoredModel& model, LayerRange layers, gpu::Stream& stream, core::ThreadPool& pool,
              uint64_t free_bytes, const Progress& on_progress);

  [[nodiscard]] const StageWeights& by_role() const { return by_role_; }
  [[nodiscard]] const LoadReport& report() const { return report_; }
  /// Of a stack the first matrix, which the others follow.
  [[nodiscard]] const gpu::PackedMatrix& matrix(WeightId id) const { return at(id).matrix; }
  [[nodiscard]] const float* vector(WeightId id) const { return at(id).vector; }
  [[nodiscard]] size_t length(WeightId id) const { return at(id).length; }  ///< of a vector
  /// Whether a matrix has this kind, or one of a stack.
  [[nodiscard]] bool uses(gpu::Kind kind) const { return uses_[static_cast<size_t>(kind)]; }
  [[nodiscard]] bool stacks_use(gpu::Kind kind) const { return stacks_use_[static_cast<size_t>(kind)]; }

 private:
  struct Weight {
    gpu::PackedMatrix matrix;       ///< of a tensor with two dimensions, or three
    const float* vector = nullptr;  ///< of one with one
    size_t length = 0;
  };
  class Upload;

  [[nodiscard]] const Weight& at(WeightId id) const { return weights_[static_cast<size_t>(id.index)]; }
  StageWeights load(const core::StoredModel& model, LayerRange layers, gpu::Stream& stream, core::ThreadPool& pool,
                    uint64_t free_bytes, const Progress& on_progress);

  LoadReport report_;
  bool uses_[4] = {};
  bool stacks_use_[4] = {};
  gpu::DeviceMemory memory_;
  std::vector<Weight> weights_;  ///< by WeightId
  StageWeights by_role_;         // last: loading fills the members above
};

}  // namespace folio::infer
