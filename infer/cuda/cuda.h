// Implements Machine on an NVIDIA GPU. This header does not need CUDA; in a build without CUDA, make_cuda() throws.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "infer/cuda/device.h"
#include "infer/forward/machine.h"

namespace folio::infer {

struct CudaOptions {
  int device = 0;
  /// Maximum bytes for the KV cache; nullopt: the memory left after weights and workspace.
  std::optional<uint64_t> cache_bytes{};
  size_t max_rows = 2048;      ///< maximum rows of a step; longer prompts are split
  size_t max_logit_rows = 64;  ///< maximum rows of a step that need logits, for which memory is left
  /// Allows a row's result to depend on batching and on how its prompt is split; slightly faster.
  bool fast = false;
  /// Called while weights are loaded, with the bytes loaded so far and in total.
  std::function<void(uint64_t done, uint64_t total)> on_progress{};
};

/// Returns true if this build has kernels for GPUs.
[[nodiscard]] bool cuda_built();

/// Returns the Machine for a GPU. Throws core::Error if this build has no CUDA, the device doesn't exist, or the GPU or
/// its driver is too old.
[[nodiscard]] std::unique_ptr<Machine> make_cuda(const CudaOptions& options);

}  // namespace folio::infer
