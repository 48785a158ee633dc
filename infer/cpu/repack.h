// Repacks GGUF's blocks into the tiles that matmul_groups reads (reference/groups.h), with the same dequantized values.
#pragma once

#include <span>

#include "core/tensor_view.h"
#include "core/thread_pool.h"
#include "infer/reference/kernels.h"

namespace folio::infer {

/// Returns the GroupMatrix that repack() returns for a tensor (n_out, k) of a block type, but with null tiles.
[[nodiscard]] kernels::GroupMatrix group_layout(const core::TensorView& tensor);

/// Returns the size of the repacked tensor in bytes.
[[nodiscard]] size_t group_bytes(const core::TensorView& tensor);

/// Writes the tensor's tiles to `tiles`, using the pool's threads, and returns a view of them. `tiles` must have
/// group_bytes(tensor) bytes and be aligned to 64 bytes.
[[nodiscard]] kernels::GroupMatrix repack(const core::TensorView& tensor, std::span<uint8_t> tiles,
                                          core::ThreadPool& pool);

/// Returns the size in bytes of a 16-bit tensor (n_out, k) after pack_panels().
[[nodiscard]] size_t panel_bytes(const core::TensorView& tensor);

/// Writes a 16-bit tensor as BF16 panels to `panels`, using the pool's threads, and returns a view of them. Rounds F16.
/// `panels` must have panel_bytes(tensor) bytes.
[[nodiscard]] kernels::PanelMatrix pack_panels(const core::TensorView& tensor, std::span<uint8_t> panels,
                                               core::ThreadPool& pool);

}  // namespace folio::infer
