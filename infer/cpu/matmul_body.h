// Products with float, F16 or BF16 weights. Few inputs are multiplied in tiles of sixteen (row, input) pairs: 16 rows
// and 1 input, 8 and 2, or 4 and 4. For many inputs, matmul_packed.h (AVX-512) or matmul_panels.h is used.
#pragma once

#include <algorithm>

#if defined(__AVX512F__)
#include "infer/cpu/matmul_packed.h"
#else
#include "infer/cpu/matmul_panels.h"
#endif
#include "infer/cpu/prefetch.h"
#include "infer/reference/kernels.h"

namespace folio::infer::kernels {
namespace {

// Adds the products of columns [i, i + 16) to sum[r * kTokens + t], for kRows weight rows r and kTokens inputs t.
template <size_t kRows, size_t kTokens, typename Weight>
inline void add_columns(const Weight* const* weight, const float* const* x, size_t i, Vec (&sum)[kRows * kTokens]) {
  Vec input[kTokens];
  for (size_t t = 0; t < kTokens; ++t) input[t] = Vec::load(x[t] + i);
  for (size_t r = 0; r < kRows; ++r) {
    const Vec w = Vec::load(weight[r] + i);
    for (size_t t = 0; t < kTokens; ++t) sum[r * kTokens + t] = Vec::fma(w, input[t], sum[r * kTokens + t]);
  }
}

// Computes sums[r * kTokens + t] of kRows weight rows and kTokens inputs over columns [begin, end) of one chunk.
// Prefetches each row's weights `ahead` elements ahead. matmul_tiles prefetches the next tile this way, because a tile
// has more rows than the hardware prefetcher can track.
template <size_t kRows, size_t kTokens, Prefetch level, typename Weight>
inline void add_chunk(const Weight* const* weight, const float* const* x, size_t begin, size_t end, size_t ahead,
                      Vec* sums) {
  constexpr size_t kLine = 64 / sizeof(Weight);  // elements per cache line
  Vec sum[kRows * kTokens];
  for (Vec& s : sum) s = Vec::zero();
  size_t i = begin;
  for (; i + kLine <= end; i += kLine) {
    for (size_t r = 0; r < kRows; ++r) prefetch_line<level>(weight[r] + i + ahead);
    for (size_t c = 0; c < kLine; c += kLanes) add_columns<kRows, kTokens>(weight, x, i + c, sum);
  }
  for (; i + kLanes <= end; i += kLanes) add_columns<kRows, kTokens>(weight, x, i, sum);
  if (i < end) {
    Vec input[kTokens];
    for (size_t t = 0; t < kTokens; ++t) input[t] = Vec::load_first(x[t] + i, end - i);
    for (size_t r = 0; r < kRows; ++r) {
      const Vec w = Vec::load_first(weight[r] + i, end - i);
      for (size_t t = 0; t < kTokens; ++t) sum[r * kTokens + t] = Vec::fma(w, input[t], sum[r * kTokens + t]);
    }
  }
  for (size_t s = 0; s < kRows * kTokens; ++s) sums[s] = sum[s];
}

// Computes sixteen outputs at a time, for kRows = 16 / kTokens weight rows and kTokens inputs, chunk by chunk. A
// partial tile is filled with copies of the last row and input, whose outputs are not stored.
//
//                 chunk 0              chunk 1           last columns
//     row 0   | 16 | 16 | ... | 16 | 16 | 16 | ... | 16 | 16 | 5 |    input 0   | 16 | 16 | ...
//     row 1   | 16 | 16 | ... | 16 | 16 | 16 | ... | 16 | 16 | 5 |    input 1   | 16 | 16 | ...
//       :                                                               :
//
// Each (row, input) pair has a Vec of sums, whose lane l adds the products of columns c ≡ l (mod 16). As many pairs as
// fit in registers are summed together, so each loaded vector serves several pairs. After a chunk, the sixteen Vecs are
// joined into one with a value per pair, which is added to the total:
//
//               lane   0    1    2   ...   15
//     pair 0         [ a0   a1   a2  ...  a15 ] --+
//     pair 1         [ b0   b1   b2  ...  b15 ]   |  join_lanes: lane l adds lane l + 8, then l + 4, l + 2, l + 1
//       :                                         |
//     pair 15        [ p0   p1   p2  ...  p15 ] --+
//                                                 v
//     total       += [ Σa   Σb   Σc  ...   Σp ]      after the last chunk: the sixteen outputs
template <size_t kTokens, Prefetch level, typename Weight>
void matmul_tiles(const float* x, size_t n_rows, const Weight* weight, size_t k, size_t row_begin, size_t row_end,
                  float* out, size_t out_stride, bool accumulate) {
  constexpr size_t kRows = kLanes / kTokens;
  constexpr size_t kTileRows = std::max<size_t>(1, std::min(kRows, Vec::kTileSums / std::min(kTokens, Vec::kTileSums)));
  constexpr size_t kTileTokens = std::min(kTokens, Vec::kTileSums / kTileRows);
  for (size_t row = row_begin; row < row_end; row += kRows) {
    const Weight* w[kRows];
    for (size_t r = 0; r < kRows; ++r) w[r] = weight + std::min(row + r, row_end - 1) * k;
    const size_t rows = std::min(kRows, row_end - row);
    for (size_t token = 0; token < n_rows; token += kTokens) {
      const float* in[kTokens];
      for (size_t t = 0; t < kTokens; ++t) in[t] = x + std::min(token + t, n_rows - 1) * k;
      const size_t tokens = std::min(kTokens, n_rows - token);
      Vec total = Vec::zero();
      for (size_t chunk = 0; chunk < k; chunk += kChunk) {
        const size_t end = std::min(k, chunk + kChunk);
        Vec sums[kLanes];  // [t * kRows + r], so that the outputs of an input are adjacent
        for (size_t t = 0; t < kTokens; t += kTileTokens) {
          for (size_t r = 0; r < kRows; r += kTileRows) {
            Vec tile[kTileRows * kTileTokens];
            add_chunk<kTileRows, kTileTokens, level>(w + r, in + t, chunk, end, kRows * k, tile);
            for (size_t a = 0; a < kTileRows; ++a) {
              for (size_t b = 0; b < kTileTokens; ++b) sums[(t + b) * kRows + r + a] = tile[a * kTileTokens + b];
            }
          }
        }
        total = total + Vec::join_lanes(sums);
      }
      float y[kLanes];
      total.store(y);
      for (size_t t = 0; t < tokens; ++t) {
        float* to = out + (token + t) * out_stride + row;
        for (size_t r = 0; r < rows; ++r) to[r] = accumulate ? to[r] + y[t * kRows + r] : y[t * kRows + r];
      }
    }
  }
}

// Computes matmul for one input, which is bound by memory. The two halves of the rows are read and prefetched as two
// sequential streams. Hardware prefetchers follow both, and while one stream stops at a page's end, the other
// continues. A row is read to its end, since jumping to the next row after a few chunks would break the stream. One
// join_lanes() adds the lanes of up to sixteen chunk sums, which belong to `together` rows.
template <Prefetch level, typename Weight>
void matmul_halves(const float* x, const Weight* weight, size_t k, size_t row_begin, size_t row_end, float* out,
                   bool accumulate) {
  constexpr size_t kAhead = kBytesAhead / sizeof(Weight);
  size_t half = (row_end - row_begin + 1) / 2;
  // Streams a large power of two apart would compete for the same DRAM banks, each of which has one open row.
  if (half * k * sizeof(Weight) % (size_t{1} << 20U) == 0) half += kLanes;
  const size_t together = kLanes / std::clamp<size_t>((k + kChunk - 1) / kChunk, 1, kLanes);
  for (size_t row = row_begin; row < row_begin + half; row += together) {
    const size_t rows = std::min(together, row_begin + half - row);
    float total[2][kLanes] = {};
    for (size_t begin = 0; begin < k; begin += kLanes * kChunk) {
      const size_t chunks = std::min(kLanes, (k - begin + kChunk - 1) / kChunk);
      Vec sums[2][kLanes];  // [half][r * chunks + c]: row r, chunk c
      for (size_t r = 0; r < rows; ++r) {
        const Weight* w[2] = {weight + std::min(row + r, row_end - 1) * k,
                              weight + std::min(row + half + r, row_end - 1) * k};
        for (size_t c = 0; c < chunks; ++c) {
          const size_t first = begin + c * kChunk;
          Vec two[2];
          add_chunk<2, 1, level>(w, &x, first, std::min(k, first + kChunk), kAhead, two);
          for (size_t h = 0; h < 2; ++h) sums[h][r * chunks + c] = two[h];
        }
      }
      for (size_t h = 0; h < 2; ++h) {
        std::fill(sums[h] + rows * chunks, sums[h] + kLanes, Vec::zero());
        float joined[kLanes];
        Vec::join_lanes(sums[h]).store(joined);
        if (chunks == 1) {
          for (size_t r = 0; r < kLanes; ++r) total[h][r] += joined[r];
          continue;
        }
        for (size_t r = 0; r < rows; ++r) {
          for (size_t c = 0; c < chunks; ++c) total[h][r] += joined[r * chunks + c];
        }
      }
    }
    for (size_t h = 0; h < 2; ++h) {
      const size_t first = row + h * half;
      for (size_t r = first; r < std::min(first + rows, row_end); ++r) {
        out[r] = accumulate ? out[r] + total[h][r - first] : total[h][r - first];
      }
    }
  }
}

// Implements Kernels::matmul for float, F16, BF16 and Q8 weights, which Vec::load widens. Blocks of inputs stay in L1
// while they are multiplied by a block of weight rows that stays in L2.
template <typename Weight>
void matmul(const float* x, size_t n_rows, const Weight* weight, size_t k, size_t row_begin, size_t row_end, float* out,
            size_t out_stride, bool accumulate) {
  constexpr size_t kL1Bytes = size_t{24} << 10U;
  constexpr size_t kL2Bytes = size_t{512} << 10U;
  if (row_begin >= row_end || n_rows == 0) return;
  if (n_rows == 1) {
    const Prefetch chosen = select_prefetch(k * sizeof(float));
    const auto run = with_level(chosen, [](auto level) { return matmul_halves<level, Weight>; });
    return run(x, weight, k, row_begin, row_end, out, accumulate);
  }
#if defined(__AVX512F__)
  if (n_rows >= kManyInputs && row_end - row_begin > kLanes) {  // for one tile of rows, packing would double the cost
    constexpr size_t kInputs = Vec::kPackedInputs;
    thread_local std::vector<float> packed;
    packed.resize(std::max(packed.size(), (n_rows + kInputs - 1) / kInputs * kInputs * in_lanes(k)));
    for (size_t n = 0; n < n_rows; n += kInputs) {
      pack(x + n * k, std::min(kInputs, n_rows - n), k, packed.data() + n * in_lanes(k));
    }
    return matmul_packed(packed.data(), n_rows, weight, k, row_begin, row_end, out, out_stride, accumulate);
  }
#else
  if (n_rows >= kManyInputs) {
    return matmul_panels(x, n_rows, weight, k, row_begin, row_end, out, out_stride, accumulate);
  }
#endif
  const size_t length = std::max<size_t>(k, 1);
  const size_t inputs = std::max<size_t>(4, kL1Bytes / (length * sizeof(float)) / 4 * 4);
  const size_t rows = std::max<size_t>(4, kL2Bytes / (length * sizeof(Weight)) / 4 * 4);
  for (size_t row = row_begin; row < row_end; row += rows) {
    const size_t n_block = std::min(rows, row_end - row);
    const auto multiply = [&](auto run) {
      for (size_t n = 0; n < n_rows; n += inputs) {
        run(x + n * k, std::min(inputs, n_rows - n), weight + row * k, k, 0, n_block, out + n * out_stride + row,
            out_stride, accumulate);
      }
    };
    // Products with two or more inputs are bound by arithmetic, so the prefetch level does not matter.
    if (n_rows > 2) {
      multiply(matmul_tiles<4, Prefetch::L2, Weight>);
    } else {
      multiply(matmul_tiles<2, Prefetch::L2, Weight>);
    }
  }
}

// Implements Kernels::matmul_near. With one input, tiles of eight rows waste less if at most eight rows remain after
// tiles of sixteen.
template <typename Weight>
void matmul_near(const float* x, size_t n_rows, const Weight* weight, size_t k, size_t row_begin, size_t row_end,
                 float* out, size_t out_stride, bool accumulate) {
  const auto run = n_rows > 2                                       ? matmul_tiles<4, Prefetch::None, Weight>
                   : n_rows == 2 || (row_end - row_begin) % 16 <= 8 ? matmul_tiles<2, Prefetch::None, Weight>
                                                                    : matmul_tiles<1, Prefetch::None, Weight>;
  run(x, n_rows, weight, k, row_begin, row_end, out, out_stride, accumulate);
}

}  // namespace
}  // namespace folio::infer::kernels
