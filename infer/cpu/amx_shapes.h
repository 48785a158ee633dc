// Configuration of the AMX tile registers for matrix products.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace folio::infer::kernels {
namespace {

// Configures the AMX tile registers for products of `size`-byte elements; the destructor releases them. Registers 0, 3,
// 6 and 7 hold sums (16, 16) of 32 bits, registers 1 and 4 left operands (16, depth), and registers 2 and 5 right
// operands (depth * size / 4 rows of 64 bytes).
class TileShapes {
 public:
  TileShapes(size_t depth, size_t size) {
    const auto bytes = static_cast<uint16_t>(depth * size);
    const auto rows = static_cast<uint8_t>(bytes / 4);
    const struct alignas(64) {  // operand of ldtilecfg
      uint8_t palette = 1;
      uint8_t start_row = 0;
      uint8_t reserved[14]{};
      uint16_t row_bytes[16]{};
      uint8_t rows[16]{};
    } shapes{.row_bytes = {64, bytes, 64, 64, bytes, 64, 64, 64}, .rows = {16, 16, rows, 16, 16, rows, 16, 16}};
    static_assert(sizeof shapes == 64);
    // g++ 12 assumes that the intrinsic reads only 8 of the 64 bytes. The asm keeps it from dropping the other stores.
    __asm__ volatile("" : : "m"(shapes));
    _tile_loadconfig(&shapes);
  }
  TileShapes(const TileShapes&) = delete;
  TileShapes& operator=(const TileShapes&) = delete;
  ~TileShapes() { _tile_release(); }
};

}  // namespace
}  // namespace folio::infer::kernels
