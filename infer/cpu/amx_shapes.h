// Configuration of the AMX tile registers for matrix products.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace folio::infer::kernels {
namespace {

// Configures AMX tile registers 0 (sums), 1 (left operand) and 2 (right operand), and 3, 4, 5 likewise; the destructor
// releases them. Shapes for elements of `size` bytes: (16, 16) of 32 bits; (16, depth); (depth * size / 4, 64 bytes).
// Registers 6 and 7 have the shape of sums.
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
    // g++ 12 assumes that the intrinsic reads only 8 of the 64 bytes. This keeps it from dropping the other stores.
    __asm__ volatile("" : : "m"(shapes));
    _tile_loadconfig(&shapes);
  }
  TileShapes(const TileShapes&) = delete;
  TileShapes& operator=(const TileShapes&) = delete;
  ~TileShapes() { _tile_release(); }
};

}  // namespace
}  // namespace folio::infer::kernels
