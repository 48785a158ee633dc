// Emulates AMX tile registers in plain C++, as Intel's manual defines them, to test the AMX kernels on processors
// without AMX. Must be included before infer/cpu/amx_shapes.h.
#pragma once

#include <immintrin.h>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace folio::test {

class EmulatedTiles {
 public:
  void configure(const void* config) {
    const auto* bytes = static_cast<const uint8_t*>(config);
    for (size_t i = 0; i < 8; ++i) {
      uint16_t row_bytes;
      std::memcpy(&row_bytes, bytes + 16 + 2 * i, sizeof row_bytes);
      tiles_[i] = {.n_rows = bytes[48 + i], .row_bytes = row_bytes, .rows = {}};
    }
  }
  void zero(size_t to) { std::memset(tiles_[to].rows, 0, sizeof tiles_[to].rows); }
  void load(size_t to, const void* from, size_t stride) {
    zero(to);
    Tile& tile = tiles_[to];
    for (size_t r = 0; r < tile.n_rows; ++r) {
      std::memcpy(tile.rows[r], static_cast<const uint8_t*>(from) + r * stride, tile.row_bytes);
    }
  }
  void store(size_t from, void* to, size_t stride) const {
    const Tile& tile = tiles_[from];
    for (size_t r = 0; r < tile.n_rows; ++r) {
      std::memcpy(static_cast<uint8_t*>(to) + r * stride, tile.rows[r], tile.row_bytes);
    }
  }
  /// Adds the product of tiles a (m, 4 k) and b (k, n, 4), both int8_t, to tile `sums` (m, n) of int32_t.
  void multiply_bytes(size_t sums, size_t a, size_t b) {
    for_sums<int32_t>(sums, [&](size_t m, size_t n, int32_t sum) {
      for (size_t k = 0; k < tiles_[b].n_rows; ++k) {
        for (size_t i = 0; i < 4; ++i) {
          sum += int32_t{element<int8_t>(tiles_[a], m, 4 * k + i)} * int32_t{element<int8_t>(tiles_[b], k, 4 * n + i)};
        }
      }
      return sum;
    });
  }
  /// Adds the product of tiles a (m, 2 k) and b (k, n, 2), both BF16, to tile `sums` (m, n) of floats. Even and odd
  /// columns of a are summed separately by fused multiply-adds, with denormals flushed to 0.
  void multiply_bf16(size_t sums, size_t a, size_t b) {
    for_sums<float>(sums, [&](size_t m, size_t n, float sum) {
      float halves[2] = {0.0F, 0.0F};
      for (size_t k = 0; k < tiles_[b].n_rows; ++k) {
        for (size_t i = 0; i < 2; ++i) {
          halves[i] = flushed(std::fma(bf16(tiles_[a], m, 2 * k + i), bf16(tiles_[b], k, 2 * n + i), halves[i]));
        }
      }
      return flushed(flushed(sum) + flushed(halves[0] + halves[1]));
    });
  }

 private:
  struct Tile {
    size_t n_rows = 0;
    size_t row_bytes = 0;
    uint8_t rows[16][64]{};
  };
  template <typename T>
  static T element(const Tile& tile, size_t row, size_t i) {
    T x;
    std::memcpy(&x, tile.rows[row] + i * sizeof x, sizeof x);
    return x;
  }

  static float flushed(float x) { return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0F, x) : x; }
  static float bf16(const Tile& tile, size_t row, size_t i) {
    return flushed(std::bit_cast<float>(uint32_t{element<uint16_t>(tile, row, i)} << 16U));
  }
  /// Replaces each element (m, n) of tile `sums` by body(m, n, element).
  template <typename Sum, typename Body>
  void for_sums(size_t sums, Body&& body) {
    for (size_t m = 0; m < tiles_[sums].n_rows; ++m) {
      for (size_t n = 0; n < tiles_[sums].row_bytes / 4U; ++n) {
        const Sum sum = body(m, n, element<Sum>(tiles_[sums], m, n));
        std::memcpy(tiles_[sums].rows[m] + 4 * n, &sum, 4);
      }
    }
  }

  Tile tiles_[8];
};

inline thread_local EmulatedTiles emulated_tiles;

}  // namespace folio::test

#undef _tile_loadd
#undef _tile_stored
#undef _tile_zero
#undef _tile_dpbssd
#undef _tile_dpbf16ps
// NOLINTBEGIN(bugprone-reserved-identifier,cppcoreguidelines-macro-usage)
#define _tile_loadconfig(config) ::folio::test::emulated_tiles.configure(config)
#define _tile_release() ::folio::test::emulated_tiles = {}
#define _tile_zero(to) ::folio::test::emulated_tiles.zero(to)
#define _tile_loadd(to, from, stride) ::folio::test::emulated_tiles.load(to, from, stride)
#define _tile_stored(from, to, stride) ::folio::test::emulated_tiles.store(from, to, stride)
#define _tile_dpbssd(sums, a, b) ::folio::test::emulated_tiles.multiply_bytes(sums, a, b)
#define _tile_dpbf16ps(sums, a, b) ::folio::test::emulated_tiles.multiply_bf16(sums, a, b)
// NOLINTEND(bugprone-reserved-identifier,cppcoreguidelines-macro-usage)
