// An NVIDIA GPU as a machine. This header needs no CUDA: a build without it has the same functions, which say so.
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
  /// Bytes for the KV cache; nothing: what is left after weights and workspace.
  std::optional<uint64_t> cache_bytes{};
  size_t max_rows = 2048;  ///< of a step; what a prompt is cut into
  /// A row's result may depend on its companions and on how its prompt was cut; a little faster.
  bool fast = false;
  /// Called while weights are loaded, with the bytes that are on the device and those that will be.
  std::function<void(uint64_t done, uint64_t total)> on_progress{};
};

/// Whether this build runs on GPUs.
[[nodiscard]] bool cuda_built();

/// Throws core::Error if this build has no CUDA, there is no such device, or its driver is too old.
[[nodiscard]] std::unique_ptr<Machine> make_cuda(const CudaOptions& options);

}  // namespace folio::infer
