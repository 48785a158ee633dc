// One step of a warp's product of 16 rows of weights and 8 rows of inputs, for each format. A step is four tiles: 32
// columns of F32 weights, 64 of 16-bit weights, 128 of group-quantized weights. product.cu loads steps from memory to
// registers; product_tiled.cu copies them to shared memory first.
#pragma once

#include "infer/cuda/kernels.h"
#include "infer/cuda/mma.h"
#include "infer/cuda/numbers.h"

namespace folio::infer::gpu {

__device__ inline TileA tile_a(const Words& v) { return {{v.w[0], v.w[1], v.w[2], v.w[3]}}; }
__device__ inline TileB tile_b(const Words& v, int half) { return {{v.w[2 * half], v.w[2 * half + 1]}}; }

/// Loads two floats from an address aligned to eight bytes.
__device__ inline void load_two(const uint8_t* from, float* to) {
  struct alignas(8) Two {
    float x[2];
  };
  const Two two = *reinterpret_cast<const Two*>(from);
  to[0] = two.x[0];
  to[1] = two.x[1];
}

/// F32, F16 or BF16 weights, which have no scales.
template <Kind kFormat>
struct Floats {
  static constexpr Kind kKind = kFormat;
  static constexpr size_t kStepColumns = 128 / number_bytes(kFormat);
  static constexpr int kAhead = 2;             ///< steps that a warp loads ahead
  static constexpr size_t kInputBytes = 1024;  ///< bytes of inputs per step
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
  struct Inputs {
    Words tiles[2];  ///< element i: the lane's registers of tiles 2 i and 2 i + 1
  };
  static __device__ void load_inputs(const uint8_t* step, Inputs& to) {
#pragma unroll
    for (int i = 0; i < 2; ++i) to.tiles[i] = load(step + i * 512 + lane_id() * 16);
  }
  static __device__ void multiply(const Weights& weights, const Inputs& inputs, Sums& s) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const TileB b = tile_b(inputs.tiles[i / 2], i % 2);
      if constexpr (kKind == Kind::F32) multiply_f32(s, tile_a(weights.tiles[i]), b);
      if constexpr (kKind == Kind::F16) multiply_f16(s, tile_a(weights.tiles[i]), b);
      if constexpr (kKind == Kind::BF16) multiply_bf16(s, tile_a(weights.tiles[i]), b);
    }
  }
};

/// Group-quantized weights: quants, then scales, then minimums. The products of a group have an exact integer sum n.
/// Then sum = fma(n, scale * input scale, sum), and with minimums sum = fma(minimum, scaled sum of the inputs, sum).
template <int kBits, int kGroupColumns, bool kMinimums>
struct Groups {
  static constexpr Kind kKind = Kind::Groups;
  static constexpr size_t kStepColumns = kBlockK;
  static constexpr int kAhead = kBits == 4 && !kMinimums ? 4 : 2;  // steps loaded ahead, limited by registers
  static constexpr size_t kInputBytes = 1280;
  static constexpr int kLoads = kBits / 2;             ///< 16-byte loads of quants per lane and step
  static constexpr int kScales = 128 / kGroupColumns;  ///< scales per row and step, one per group
  static constexpr int kScalesOfTile = 32 / kGroupColumns;
  [[nodiscard]] static FOLIO_BOTH constexpr size_t step_bytes(const PackedMatrix& w) { return w.block_bytes(); }

  static constexpr size_t kNumberBytes = kTileRows * kBlockK * kBits / 8;  ///< bytes of quants per step
  static constexpr size_t kScaleBytes = 16 * kScales;                      ///< number of scales per step, not of bytes

  /// A group's scales or minimums for rows g and g + 8, as stored, with g = lane_group(). They are converted only when
  /// they are used: a conversion right after the load would wait for the data and delay the loads of the next steps.
  struct Pair {
    uint32_t words[2];  ///< two floats, or two F16 in the first word
    [[nodiscard]] __device__ float operator()(int row, bool half) const {
      return half ? from_f16(static_cast<uint16_t>(words[0] >> (16 * row))) : float_of(words[row]);
    }
  };
  struct Weights {
    Words quants[kLoads];
    Pair scales[kScales];
    Pair minimums[kMinimums ? kScales : 1];
    bool half;
    uint32_t zero_points;  ///< the zero point, repeated in each byte
  };
  static __device__ void load_pair(const uint8_t* scales, int group, bool half, Pair& to) {
    const unsigned index = static_cast<unsigned>(group) * 8 + lane_group();
    const auto* words = reinterpret_cast<const uint32_t*>(scales + index * (half ? 4 : 8));
    to.words[0] = words[0];
    to.words[1] = half ? 0 : words[1];
  }
  template <bool kOnce>
  static __device__ void load_weights(const PackedMatrix& w, const uint8_t* step, Weights& to) {
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const uint8_t* at = step + i * 512 + lane_id() * 16;
      to.quants[i] = kOnce ? load_once(at) : load(at);
    }
    to.half = w.half_scales;
    const uint8_t* scales = step + kNumberBytes;
    const uint8_t* minimums = scales + kScaleBytes * (to.half ? 2 : 4);
#pragma unroll
    for (int j = 0; j < kScales; ++j) {
      load_pair(scales, j, to.half, to.scales[j]);
      if constexpr (kMinimums) load_pair(minimums, j, to.half, to.minimums[j]);
    }
    to.zero_points = w.zero_point * 0x01010101U;
  }
  /// Returns tile `index` as signed bytes. A tile has 32 columns.
  static __device__ TileA tile(const Weights& weights, int index) {
    if constexpr (kBits == 8) {
      return tile_a(weights.quants[index]);
    } else {
      TileA a;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const uint32_t quants = weights.quants[index / 2].w[i] >> (index % 2 * 4) & 0x0F0F0F0FU;
        a.w[i] = ((quants | 0x80808080U) - weights.zero_points) ^ 0x80808080U;  // subtracts bytewise, without borrows
      }
      return a;
    }
  }
  struct Inputs {
    Words quants[2];     ///< element i: the lane's registers of tiles 2 i and 2 i + 1
    float scales[4][2];  ///< [tile][i]: scale of input row 2 t + i, with t = lane_in_group()
    float scaled_sums[kMinimums ? 4 : 1][2];
  };
  static __device__ void load_inputs(const uint8_t* step, Inputs& to) {
#pragma unroll
    for (int i = 0; i < 2; ++i) to.quants[i] = load(step + i * 512 + lane_id() * 16);
    const uint8_t* scales = step + 1024 + lane_in_group() * 8;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      load_two(scales + j * 32, to.scales[j]);
      if constexpr (kMinimums) load_two(scales + 128 + j * 32, to.scaled_sums[j]);
    }
  }
  static __device__ void multiply(const Weights& weights, const Inputs& inputs, Sums& s) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const TileA a = tile(weights, j);
      const TileB b = tile_b(inputs.quants[j / 2], j % 2);
#pragma unroll
      for (int part = 0; part < kScalesOfTile; ++part) {
        const Pair& pair = weights.scales[j * kScalesOfTile + part];
        const float scale_w[2] = {pair(0, weights.half), pair(1, weights.half)};
        IntSums sums{};
        if constexpr (kScalesOfTile == 1) {
          multiply_s8(sums, a, b);
        } else {
          multiply_s8_half(sums, a, b, part);
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          s.c[i] = fmaf(static_cast<float>(sums.c[i]), scale_w[i / 2] * inputs.scales[j][i % 2], s.c[i]);
        }
      }
      if constexpr (kMinimums) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          s.c[i] = fmaf(weights.minimums[j](i / 2, weights.half), inputs.scaled_sums[j][i % 2], s.c[i]);
        }
      }
    }
  }
};

/// The matrices that one launch multiplies by the same inputs: list[0, n).
struct Products {
  Matmul list[kMaxProducts];
  uint32_t n = 0;
};
[[nodiscard]] inline Products products_of(const Matmul* products, size_t n) {
  Products all;
  for (size_t i = 0; i < n; ++i) all.list[i] = products[i];
  all.n = static_cast<uint32_t>(n);
  return all;
}

/// The product that a block computes, and the block's first row tile in that product.
struct BlockWork {
  const Matmul* product;
  size_t first_tile;
};
__device__ inline BlockWork work_of(const Products& products, size_t block, size_t tiles) {
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

/// Returns the number of blocks of k in each of kSplits parts, which are summed separately. The last parts may have
/// fewer blocks or none.
[[nodiscard]] FOLIO_BOTH constexpr size_t split_blocks(size_t k_blocks) { return ceil_div(k_blocks, kSplits); }

/// Stores `total` plus the bias as out[row, output], unless that is padding. Undoes the scaling of an F16 input row.
__device__ inline void finish(const Matmul& p, const PackedInputs& x, size_t row, size_t output, float total) {
  if (row >= x.n_rows || output >= p.weight.n_out) return;
  if (x.kind == Kind::F16) total *= x.row_scales[row];
  p.out[row * p.weight.n_out + output] = p.bias == nullptr ? total : p.bias[output] + total;
}

/// Calls f with the format of `w` as a template argument.
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

/// Multiplies many rows of x by the weights of `products` (product_tiled.cu). With `fast_sums`, the order of summation,
/// and so the rounding, may depend on the number of rows.
void multiply_tiled(Stream& stream, const PackedInputs& x, const Products& products, bool fast_sums);

}  // namespace folio::infer::gpu
