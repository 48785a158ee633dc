// Packs a file's tensors into the device's layout (layout.h). Values don't change.
#pragma once

#include <span>

#include "core/tensor_view.h"
#include "core/thread_pool.h"
#include "infer/cuda/layout.h"

namespace folio::infer {

/// Returns the layout of a tensor (n_out, k) on the device, without data. Throws core::Error if its type is
/// unsupported.
[[nodiscard]] gpu::PackedMatrix packed_layout(const core::TensorView& tensor);

/// Packs consecutive row tiles of the tensor, from tile `first` on, until `tiles` is full. Runs on the pool's threads.
void pack_tiles(const core::TensorView& tensor, const gpu::PackedMatrix& layout, size_t first, std::span<uint8_t> tiles,
                core::ThreadPool& pool);

}  // namespace folio::infer
