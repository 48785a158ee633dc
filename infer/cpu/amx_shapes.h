// The shapes of AMX's tile registers, and what every product with them does.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace folio::infer::kernels {
namespace {

// Gives the registers 0 (sums), 1 (the left operand) and 2 (the right one) their shapes for as long as it lives:
// (16, 16) numbers of 32 bits, (16, depth) and (depth * size / 4, 64 bytes), for elements of `size` bytes. So it does
// to 3, 4 and 5. 6 and 7 are sums, too.
class TileShapes {
 public:
  TileShapes(size_t depth, size_t size) {
    const auto bytes = static_cast<uint16_t>(depth * size);
    const auto rows = static_cast<uint8_t>(bytes / 4);
    const struct alignas(64) {  // as ldtilecfg reads it
      uint8_t palette = 1;
      uint8_t start_row = 0;
      uint8_t reserved[14]{};
      uint16_t row_bytes[16]{};
      uint8_t rows[16]{};
    } shapes{.row_bytes = {64, bytes, 64, 64, bytes, 64, 64, 64}, .rows = {16, 16, rows, 16, 16, rows, 16, 16}};
    static_assert(sizeof shapes == 64);
    // To g++ 12 the intrinsic reads eight bytes, and the others need not be written before it.
    __asm__ volatile("" : : "m"(shapes));
    _tile_loadconfig(&shapes);
  }
  TileShapes(const TileShapes&) = delete;
  TileShapes& operator=(const TileShapes&) = delete;
  ~TileShapes() { _tile_release(); }
};

}  // namespace
}  // namespace folio::infer::kernels
