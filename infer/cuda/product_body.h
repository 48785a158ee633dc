// How a warp multiplies one step of 16 rows of weights by 8 rows of inputs, for each format. A step is what four tiles
// of the widest numbers hold: 32 columns of F32, 64 of 16 bits, 128 of groups. Used by product.cu, where a warp loads
// steps from memory, and by product_tiled.cu, where a block brings them to shared memory first.
#pragma once

#include "infer/cuda/kernels.h"
#include "infer/cuda/mma.h"
#include "infer/cuda/packed.h"

namespace folio::infer::gpu {

__device__ inline TileA tile_a(const Words& v) { return {{v.w[0], v.w[1], v.w[2], v.w[3]}}; }
__device__ inline TileB tile_b(const Words& v, int half) { return {{v.w[2 * half], v.w[2 * half + 1]}}; }

/// Weights of F32, F16 or BF16: the numbers alone.
template <Kind kFormat>
struct Floats {
  static constexpr Kind kKind = kFormat;
  static constexpr size_t kStepColumns = 128 / number_bytes(kFormat);
  static constexpr int kUnroll = 2;
  static constexpr size_t kInputBytes = 1024;  ///< of a step
  [[nodiscard]] static FOLIO_BOTH constexpr size_t step_bytes(const PackedMatrix&) { return 2048; }

  struct Weights {
    Words tiles[4];
  };
  template <bool kOnce>
  static __device__ void load_weights(const PackedMatrix&, const uint8_t* step, Weights& to) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const uint8_t* at = step + i * 512 + lane_id() * 16;
      to.tiles[i] = kOnce ? load_once(at) : load(at);
    }
  }
  static __device__ void multiply(const Weights& weights, const uint8_t* inputs, Sums& s) {
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
      const Words two = load(inputs + i / 2 * 512 + lane_id() * 16);
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        if constexpr (kKind == Kind::F32) multiply_f32(s, tile_a(weights.tiles[i + j]), tile_b(two, j));
        if constexpr (kKind == Kind::F16) multiply_f16(s, tile_a(weights.tiles[i + j]), tile_b(two, j));
        if constexpr (kKind == Kind::BF16) multiply_bf16(s, tile_a(weights.tiles[i + j]), tile_b(two, j));
      }
    }
  }
};

/// Weights in groups: quants, then scales, then minimums. In each group the products are sums of integers, and exact;
/// then sum = fma(that sum, scale * the input's scale, sum), and fma(minimum, the input's scaled sum, sum).
template <int kBits, int kGroupColumns, bool kMinimums>
struct Groups {
  static constexpr Kind kKind = Kind::Groups;
  static constexpr size_t kStepColumns = kBlockK;
  static constexpr int kUnroll = kBits == 4 && !kMinimums ? 4 : 2;  // what the registers hold
  static constexpr size_t kInputBytes = 1280;
  static constexpr int kLoads = kBits / 2;             ///< of 16 bytes a lane
  static constexpr int kScales = 128 / kGroupColumns;  ///< groups of a step
  static constexpr int kScalesOfTile = 32 / kGroupColumns;
  [[nodiscard]] static FOLIO_BOTH constexpr size_t step_bytes(const PackedMatrix& w) { return w.block_bytes(); }

  struct Weights {
    Words quants[kLoads];
    float scales[kScales][2];  ///< of rows g and g + 8
    float minimums[kMinimums ? kScales : 1][2];
    uint32_t zero_points;  ///< four times
  };
  static __device__ void load_pair(const uint8_t* scales, int group, bool half, float* to) {
    const size_t index = (static_cast<size_t>(group) * 8 + lane_group()) * 2;
    to[0] = scale_at(scales, index, half);
    to[1] = scale_at(scales, index + 1, half);
  }
  template <bool kOnce>
  static __device__ void load_weights(const PackedMatrix& w, const uint8_t* step, Weights& to) {
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const uint8_t* at = step + i * 512 + lane_id() * 16;
      to.quants[i] = kOnce ? load_once(at) : load(at);
    }
    const uint8_t* scales = step + w.number_block_bytes();
#pragma unroll
    for (int j = 0; j < kScales; ++j) {
      load_pair(scales, j, w.half_scales, to.scales[j]);
      if constexpr (kMinimums) load_pair(scales + w.scale_block_bytes(), j, w.half_scales, to.minimums[j]);
    }
    to.zero_points = w.zero_point * 0x01010101U;
  }
  /// The tile of 32 columns.
  static __device__ TileA tile(const Weights& weights, int index) {
    if constexpr (kBits == 8) {
      return tile_a(weights.quants[index]);
    } else {
      TileA a;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const uint32_t quants = weights.quants[index / 2].w[i] >> (index % 2 * 4) & 0x0F0F0F0FU;
        a.w[i] = ((quants | 0x80808080U) - weights.zero_points) ^ 0x80808080U;  // byte by byte: none borrows
      }
      return a;
    }
  }
  static __device__ void multiply(const Weights& weights, const uint8_t* inputs, Sums& s) {
    const auto* scales = reinterpret_cast<const float*>(inputs + 1024);
    const auto* scaled_sums = scales + 4 * kTileColumns;
    const unsigned t = lane_in_group();
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const TileA a = tile(weights, j);
      const TileB b = tile_b(load(inputs + j / 2 * 512 + lane_id() * 16), j % 2);
      const float scale_x[2] = {scales[j * 8 + 2 * t], scales[j * 8 + 2 * t + 1]};
#pragma unroll
      for (int part = 0; part < kScalesOfTile; ++part) {
        const float* scale_w = weights.scales[j * kScalesOfTile + part];
        IntSums sums{};
        if constexpr (kScalesOfTile == 1) {
          multiply_s8(sums, a, b);
        } else {
          multiply_s8_half(sums, a, b, part);
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          s.c[i] = fmaf(static_cast<float>(sums.c[i]), scale_w[i / 2] * scale_x[i % 2], s.c[i]);
        }
      }
      if constexpr (kMinimums) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          s.c[i] = fmaf(weights.minimums[j][i / 2], scaled_sums[j * 8 + 2 * t + i % 2], s.c[i]);
        }
      }
    }
  }
};

/// The matrices that one launch multiplies by.
struct Products {
  Product list[kMaxProducts];
  uint32_t n = 0;
};
[[nodiscard]] inline Products products_of(const Product* products, size_t n) {
  Products all;
  for (size_t i = 0; i < n; ++i) all.list[i] = products[i];
  all.n = static_cast<uint32_t>(n);
  return all;
}

/// Which of them a block works on, and from which of its row tiles, if blocks take `tiles` each.
struct Work {
  const Product* product;
  size_t first_tile;
};
__device__ inline Work work_of(const Products& products, size_t block, size_t tiles) {
  uint32_t i = 0;
  for (; i + 1 < products.n; ++i) {
    const size_t blocks = ceil_div(products.list[i].weight.row_tiles(), tiles);
    if (block < blocks) break;
    block -= blocks;
  }
  return {&products.list[i], block * tiles};
}
[[nodiscard]] inline size_t blocks_of(const Products& products, size_t tiles) {
  size_t blocks = 0;
  for (uint32_t i = 0; i < products.n; ++i) blocks += ceil_div(products.list[i].weight.row_tiles(), tiles);
  return blocks;
}

/// Blocks of k in each of the parts that are summed separately.
[[nodiscard]] FOLIO_BOTH constexpr size_t split_blocks(size_t k_blocks) { return ceil_div(k_blocks, kSplits); }

/// Stores a sum, scaled as the input's row was, with the bias.
__device__ inline void finish(const Product& p, const PackedInputs& x, size_t row, size_t output, float total) {
  if (row >= x.n_rows || output >= p.weight.n_out) return;
  if (x.kind == Kind::F16) total *= x.row_scales[row];
  p.out[row * p.weight.n_out + output] = p.bias == nullptr ? total : p.bias[output] + total;
}

/// Calls f with the format of `w`. Throws where there is none.
template <typename F>
void with_format(const PackedMatrix& w, F f) {
  if (w.kind == Kind::F32) return f.template operator()<Floats<Kind::F32>>();
  if (w.kind == Kind::F16) return f.template operator()<Floats<Kind::F16>>();
  if (w.kind == Kind::BF16) return f.template operator()<Floats<Kind::BF16>>();
  if (w.group == 16) return f.template operator()<Groups<8, 16, false>>();
  if (w.bits == 8) {
    return w.minimums ? f.template operator()<Groups<8, 32, true>>() : f.template operator()<Groups<8, 32, false>>();
  }
  return w.minimums ? f.template operator()<Groups<4, 32, true>>() : f.template operator()<Groups<4, 32, false>>();
}

/// product_tiled.cu: many rows.
void multiply_tiled(Stream& stream, const PackedInputs& x, const Products& products, bool fast_sums);

}  // namespace folio::infer::gpu
