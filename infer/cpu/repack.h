// From GGUF's blocks to the groups that matmul_groups reads (reference/groups.h): the same numbers in another order.
#pragma once

#include <span>

#include "core/tensor_view.h"
#include "core/thread_pool.h"
#include "infer/reference/kernels.h"

namespace folio::infer {

/// The matrix that repack() makes of a tensor (n_out, k) of a block type, with no tiles yet.
[[nodiscard]] kernels::GroupMatrix group_layout(const core::TensorView& tensor);

/// The bytes of its tiles.
[[nodiscard]] size_t group_bytes(const core::TensorView& tensor);

/// Writes the tiles of `tensor` into `tiles`, group_bytes(tensor) long and aligned to 64 bytes; the threads share them.
[[nodiscard]] kernels::GroupMatrix repack(const core::TensorView& tensor, std::span<uint8_t> tiles,
                                          core::ThreadPool& pool);

/// The bytes of the panels of a 16-bit tensor (n_out, k).
[[nodiscard]] size_t panel_bytes(const core::TensorView& tensor);

/// Writes them into `panels`, panel_bytes(tensor) long; F16 is rounded to BF16. The threads share them.
[[nodiscard]] kernels::PanelMatrix pack_panels(const core::TensorView& tensor, std::span<uint8_t> panels,
                                               core::ThreadPool& pool);

}  // namespace folio::infer
