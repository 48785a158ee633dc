// Repacks GGUF's blocks into the tiles that matmul_groups reads (reference/groups.h). Values don't change.
#pragma once

#include <span>

#include "core/tensor_view.h"
#include "core/thread_pool.h"
#include "infer/reference/kernels.h"

namespace folio::infer {

/// Returns the layout that repack() gives to a tensor (n_out, k) of a block type, with null tiles.
[[nodiscard]] kernels::GroupMatrix group_layout(const core::TensorView& tensor);

/// Returns the size of the repacked tensor in bytes.
[[nodiscard]] size_t group_bytes(const core::TensorView& tensor);

/// Writes the tensor's tiles to `tiles`, which has group_bytes(tensor) bytes and is aligned to 64, with the pool's
/// threads. Returns a view of them.
[[nodiscard]] kernels::GroupMatrix repack(const core::TensorView& tensor, std::span<uint8_t> tiles,
                                          core::ThreadPool& pool);

/// Returns the size in bytes of a 16-bit tensor (n_out, k) after pack_panels().
[[nodiscard]] size_t panel_bytes(const core::TensorView& tensor);

/// Writes a 16-bit tensor as BF16 to `panels`, which has panel_bytes(tensor) bytes, with the pool's threads. F16 is
/// rounded. Returns a view of the panels.
[[nodiscard]] kernels::PanelMatrix pack_panels(const core::TensorView& tensor, std::span<uint8_t> panels,
                                               core::ThreadPool& pool);

}  // namespace folio::infer
