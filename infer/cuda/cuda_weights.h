// A stage's weights on a GPU. The host's threads pack them and stream them to the device: one piece is packed while the
// previous one is copied.
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
  /// Receives the bytes uploaded so far and in total.
  using Progress = std::function<void(uint64_t done, uint64_t total)>;

  /// Loads the layers' weights. Throws core::Error if a tensor's type is unsupported or the weights exceed
  /// `free_bytes`.
  CudaWeights(const core::StoredModel& model, LayerRange layers, gpu::Stream& stream, core::ThreadPool& pool,
              uint64_t free_bytes, const Progress& on_progress);

  [[nodiscard]] const StageWeights& by_role() const { return by_role_; }
  [[nodiscard]] const LoadReport& report() const { return report_; }
  /// Returns a matrix, or the first matrix of a stack, whose matrices are adjacent in memory.
  [[nodiscard]] const gpu::PackedMatrix& matrix(WeightId id) const { return at(id).matrix; }
  [[nodiscard]] const float* vector(WeightId id) const { return at(id).vector; }
  [[nodiscard]] size_t length(WeightId id) const { return at(id).length; }  ///< elements of a vector
  /// Returns true if any matrix is of this kind; stacks_use() checks only the matrices of stacks.
  [[nodiscard]] bool uses(gpu::Kind kind) const { return uses_[static_cast<size_t>(kind)]; }
  [[nodiscard]] bool stacks_use(gpu::Kind kind) const { return stacks_use_[static_cast<size_t>(kind)]; }

 private:
  struct Weight {
    gpu::PackedMatrix matrix;       ///< for tensors of two or three dimensions
    const float* vector = nullptr;  ///< for tensors of one dimension
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
  StageWeights by_role_;         // declared last: constructing it fills the members above
};

}  // namespace folio::infer
