// Stores matrices in the engine's layout of tiles.
#pragma once

#include <cstring>
#include <vector>

#include "infer/cuda/layout.h"
#include "tests/infer/cuda/support.h"

namespace folio::experiments {

using infer::gpu::test::on_device;

/// Returns the matrix `numbers` (rows, view.k) in the layout of `view`: a PackedMatrix has tiles of 16 rows, and
/// PackedInputs have tiles of 8.
template <typename View, typename T>
[[nodiscard]] std::vector<uint8_t> in_tiles(const View& view, const std::vector<T>& numbers) {
  constexpr size_t kRows =
      std::is_same_v<View, infer::gpu::PackedMatrix> ? infer::gpu::kTileRows : infer::gpu::kTileColumns;
  std::vector<uint8_t> bytes(view.bytes());
  for (size_t i = 0; i < numbers.size(); ++i) {
    const size_t row = i / view.k;
    const size_t column = i % view.k;
    std::memcpy(bytes.data() + view.block_offset(row / kRows, column / infer::gpu::kBlockK) +
                    view.number_offset(row % kRows, column % infer::gpu::kBlockK),
                &numbers[i], sizeof(T));
  }
  return bytes;
}

}  // namespace folio::experiments
