// From a file's tensors to the matrices of the device (layout.h): the same numbers in another order.
#pragma once

#include <span>

#include "core/tensor_view.h"
#include "core/thread_pool.h"
#include "infer/cuda/layout.h"

namespace folio::infer {

/// The matrix that a tensor (n_out, k) becomes, without its data. Throws core::Error for a type that weights don't
/// have.
[[nodiscard]] gpu::PackedMatrix packed_layout(const core::TensorView& tensor);

/// Packs row tiles from `first` on into `tiles`, as many as it holds; the threads share them.
void pack_tiles(const core::TensorView& tensor, const gpu::PackedMatrix& layout, size_t first, std::span<uint8_t> tiles,
                core::ThreadPool& pool);

}  // namespace folio::infer
