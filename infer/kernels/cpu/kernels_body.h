// The vector kernels, written once for a Vec of sixteen floats and compiled once for each instruction set, in a file
// that is compiled only for it (avx2.cpp, avx512.cpp). Included after that set's vec_*.h; everything has internal
// linkage, so that no function compiled for one set is ever called on a machine that lacks it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "infer/kernels/exp_constants.h"
#include "infer/kernels/kernels.h"

namespace folio::infer::kernels {
namespace {

inline Vec exp(Vec x) {
  using namespace exp_constants;
  x = Vec::max(x, Vec::all(kLow));
  x = Vec::min(x, Vec::all(kHigh));
  const Vec n = Vec::round(x * Vec::all(kLog2E));
  Vec r = Vec::fma(n, Vec::all(-kLn2High), x);
  r = Vec::fma(n, Vec::all(-kLn2Low), r);
  Vec p = Vec::all(kPolynomial[0]);
  for (int i = 1; i < 6; ++i) p = Vec::fma(p, r, Vec::all(kPolynomial[i]));
  return (Vec::fma(p, r * r, r) + Vec::all(1.0F)) * Vec::power_of_two(n);
}

inline float exp(float x) {
  float y = 0.0F;
  exp(Vec::all(x)).store_first(&y, 1);
  return y;
}

inline float join_lanes(Vec v) {
  const Vec sums[16] = {v, v, v, v, v, v, v, v, v, v, v, v, v, v, v, v};
  float y = 0.0F;
  Vec::join_lanes(sums).store_first(&y, 1);
  return y;
}

// Sums of a tile of kRows weight rows and kTokens inputs over one chunk: sums[r * kTokens + t]. The next tile's weights
// are `ahead` numbers from this one's. Few inputs wait for weights, not for arithmetic, and the processor's own
// prefetching loses count of so many rows side by side: so the next tile is asked for.
template <size_t kRows, size_t kTokens, typename Weight>
inline void add_chunk(const Weight* const* weight, const float* const* x, size_t begin, size_t end, size_t ahead,
                      Vec* sums) {
  Vec sum[kRows * kTokens];
  for (Vec& s : sum) s = Vec::zero();
  size_t i = begin;
  for (; i + kLanes <= end; i += kLanes) {
    Vec input[kTokens];
    for (size_t t = 0; t < kTokens; ++t) input[t] = Vec::load(x[t] + i);
    for (size_t r = 0; r < kRows; ++r) {
      if constexpr (kTokens <= 2) __builtin_prefetch(weight[r] + i + ahead);
      const Vec w = Vec::load(weight[r] + i);
      for (size_t t = 0; t < kTokens; ++t) sum[r * kTokens + t] = Vec::fma(w, input[t], sum[r * kTokens + t]);
    }
  }
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

// Sixteen outputs at once: kRows = 16 / kTokens weight rows for kTokens inputs. Rows and inputs past the end repeat the
// last one, and what they give is not stored.
template <size_t kTokens, typename Weight>
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
        Vec sums[kLanes];  // of token t and row r at t * kRows + r, so that a token's outputs are neighbours
        for (size_t t = 0; t < kTokens; t += kTileTokens) {
          for (size_t r = 0; r < kRows; r += kTileRows) {
            Vec tile[kTileRows * kTileTokens];
            add_chunk<kTileRows, kTileTokens>(w + r, in + t, chunk, end, kRows * k, tile);
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

// Of float, F16 and BF16: a Vec loads each of them as floats. Many inputs are cut into blocks that stay in the first
// cache while a block of weight rows, which stays in the second, passes by.
template <typename Weight>
void matmul(const float* x, size_t n_rows, const Weight* weight, size_t k, size_t row_begin, size_t row_end, float* out,
            size_t out_stride, bool accumulate) {
  constexpr size_t kFirstCache = size_t{24} << 10U;
  constexpr size_t kSecondCache = size_t{512} << 10U;
  if (row_begin >= row_end || n_rows == 0) return;
  const size_t length = std::max<size_t>(k, 1);
  const auto run = n_rows == 1   ? matmul_tiles<1, Weight>
                   : n_rows == 2 ? matmul_tiles<2, Weight>
                                 : matmul_tiles<4, Weight>;
  const size_t inputs = std::max<size_t>(4, kFirstCache / (length * sizeof(float)) / 4 * 4);
  const size_t rows = std::max<size_t>(4, kSecondCache / (length * sizeof(Weight)) / 4 * 4);
  for (size_t row = row_begin; row < row_end; row += rows) {
    for (size_t n = 0; n < n_rows; n += inputs) {
      run(x + n * k, std::min(inputs, n_rows - n), weight, k, row, std::min(row_end, row + rows), out + n * out_stride,
          out_stride, accumulate);
    }
  }
}

float dot_self(const float* x, size_t k) {
  float total = 0.0F;
  for (size_t chunk = 0; chunk < k; chunk += kChunk) {
    Vec sum;
    add_chunk<1, 1, float>(&x, &x, chunk, std::min(k, chunk + kChunk), 0, &sum);
    total += join_lanes(sum);
  }
  return total;
}

// Calls body(i, n) for each group of up to sixteen of `count` lanes; n < 16 only in the last.
template <typename Body>
inline void for_lanes(size_t count, Body&& body) {
  for (size_t i = 0; i < count; i += kLanes) body(i, std::min(kLanes, count - i));
}

void rms_norm(const float* x, const float* weight, float eps, size_t dim, float* out) {
  const float mean_square = dot_self(x, dim) / static_cast<float>(dim);
  const Vec inverse = Vec::all(1.0F / std::sqrt(mean_square + eps));
  for_lanes(dim, [&](size_t i, size_t n) {
    (Vec::load_first(x + i, n) * inverse * Vec::load_first(weight + i, n)).store_first(out + i, n);
  });
}

void rope(float* x, const float* cos, const float* sin, size_t n_heads, size_t head_dim) {
  for (size_t h = 0; h < n_heads; ++h) {
    float* head = x + h * head_dim;
    for_lanes(head_dim, [&](size_t d, size_t n) {
      const Vec v = Vec::load_first(head + d, n);
      const Vec turned = v.swap_pairs() * Vec::load_first(sin + d, n);
      Vec::fma(v, Vec::load_first(cos + d, n), turned).store_first(head + d, n);
    });
  }
}

void swiglu(const float* gate, const float* up, size_t n, float* out) {
  for_lanes(n, [&](size_t i, size_t count) {
    const Vec g = Vec::load_first(gate + i, count);
    const Vec silu = g / (Vec::all(1.0F) + exp(Vec::zero() - g));
    (silu * Vec::load_first(up + i, count)).store_first(out + i, count);
  });
}

// Query heads that go through a block together: it is read once for all of them, and their sums, each one a chain of
// additions that wait for each other, fill each other's gaps.
constexpr size_t kMostHeads = std::min<size_t>(4, Vec::kTileSums / 2);

struct Partial {
  float max;
  float sum;
};

// p: (kHeads, 32). value (kHeads, head_dim) = Σ_j p_j values[j], kVecs vectors of dimensions at a time so that their
// sums stay in registers. `next` is asked for meanwhile: as many numbers as the values are.
template <size_t kHeads, size_t kVecs>
inline void weighted_values(const float* p, const float* values, size_t n, size_t head_dim, const float* next,
                            float* value) {
  Vec sum[kHeads][kVecs];
  for (auto& of_head : sum) {
    for (Vec& s : of_head) s = Vec::zero();
  }
  for (size_t j = 0; j < n; ++j) {
    Vec weight[kHeads];
    for (size_t h = 0; h < kHeads; ++h) weight[h] = Vec::all(p[h * kBlockPositions + j]);
    for (size_t i = 0; i < kVecs; ++i) {
      const Vec v = Vec::load(values + j * head_dim + i * kLanes);
      __builtin_prefetch(next + j * head_dim + i * kLanes);
      for (size_t h = 0; h < kHeads; ++h) sum[h][i] = Vec::fma(weight[h], v, sum[h][i]);
    }
  }
  for (size_t h = 0; h < kHeads; ++h) {
    for (size_t i = 0; i < kVecs; ++i) sum[h][i].store(value + h * head_dim + i * kLanes);
  }
}

inline void weighted_values_tail(const float* p, const float* values, size_t n, size_t head_dim, size_t lanes,
                                 float* value) {
  Vec sum = Vec::zero();
  for (size_t j = 0; j < n; ++j) sum = Vec::fma(Vec::all(p[j]), Vec::load_first(values + j * head_dim, lanes), sum);
  sum.store_first(value, lanes);
}

// queries and value (kHeads, head_dim); keys (head_dim, 32), values (32, head_dim), of which the first n positions are
// seen; see reference/attention.cpp. A block comes from far away: while its keys are multiplied its values are asked
// for, and then the keys of the next block.
template <size_t kHeads>
inline void attend_block(const float* queries, const float* keys, const float* values, size_t n,
                         const AttentionInput& in, const float* next_keys, Partial* partial, float* value) {
  const size_t n_first = std::min(n, kLanes);
  const size_t n_second = n - n_first;
  Vec first[kHeads];
  Vec second[kHeads];
  for (size_t h = 0; h < kHeads; ++h) first[h] = second[h] = Vec::zero();
  const auto add_dimension = [&](size_t d, Vec key_first, Vec key_second) {
    for (size_t h = 0; h < kHeads; ++h) {
      const Vec q = Vec::all(queries[h * in.head_dim + d]);
      first[h] = Vec::fma(q, key_first, first[h]);
      second[h] = Vec::fma(q, key_second, second[h]);
    }
  };
  for (size_t d = 0; d < in.head_dim; ++d) {
    const float* key = keys + d * kBlockPositions;
    __builtin_prefetch(values + d * kBlockPositions);
    __builtin_prefetch(values + d * kBlockPositions + kLanes);
    if (n == kBlockPositions) {
      add_dimension(d, Vec::load(key), Vec::load(key + kLanes));
    } else {
      add_dimension(d, Vec::load_first(key, n_first),
                    n_second > 0 ? Vec::load_first(key + kLanes, n_second) : Vec::zero());
    }
  }

  float p[kHeads * kBlockPositions];
  const Vec nothing = Vec::all(-std::numeric_limits<float>::infinity());
  for (size_t h = 0; h < kHeads; ++h) {
    first[h] = (first[h] * Vec::all(in.scale)).first_or(n_first, nothing);
    second[h] = (second[h] * Vec::all(in.scale)).first_or(n_second, nothing);
    partial[h].max = Vec::max(first[h], second[h]).largest();
    const Vec max = Vec::all(partial[h].max);
    first[h] = exp(first[h] - max).first_or(n_first, Vec::zero());
    second[h] = exp(second[h] - max).first_or(n_second, Vec::zero());
    partial[h].sum = join_lanes(first[h] + second[h]);
    first[h].store(p + h * kBlockPositions);
    second[h].store(p + h * kBlockPositions + kLanes);
  }

  constexpr size_t kVecs = std::min<size_t>(4, Vec::kTileSums / kHeads);
  size_t d = 0;
  for (; d + kVecs * kLanes <= in.head_dim; d += kVecs * kLanes) {
    weighted_values<kHeads, kVecs>(p, values + d, n, in.head_dim, next_keys + d, value + d);
  }
  for (; d + 2 * kLanes <= in.head_dim; d += 2 * kLanes) {
    weighted_values<kHeads, 2>(p, values + d, n, in.head_dim, next_keys + d, value + d);
  }
  for (; d < in.head_dim; d += kLanes) {
    for (size_t h = 0; h < kHeads; ++h) {
      weighted_values_tail(p + h * kBlockPositions, values + d, n, in.head_dim, std::min(kLanes, in.head_dim - d),
                           value + h * in.head_dim + d);
    }
  }
}

// Of kHeads query heads, from `queries` to `out`, both (kHeads, head_dim).
template <size_t kHeads>
void attend(const AttentionInput& in, const float* queries, float* out) {
  Partial total[kHeads];
  Partial block[kHeads];
  float value[kHeads * kMaxHeadDim];
  for (size_t position = 0; position < in.n_positions; position += kBlockPositions) {
    const float* base = in.blocks[position / kBlockPositions];
    const float* next = in.blocks[std::min(position + kBlockPositions, in.n_positions - 1) / kBlockPositions];
    const bool begins = position == 0;
    attend_block<kHeads>(queries, base + in.key_offset, base + in.value_offset,
                         std::min(kBlockPositions, in.n_positions - position), in, next + in.key_offset,
                         begins ? total : block, begins ? out : value);
    for (size_t h = 0; h < kHeads && !begins; ++h) {
      const float max = std::max(total[h].max, block[h].max);
      const float keep = exp(total[h].max - max);
      const float join = exp(block[h].max - max);
      total[h].max = max;
      total[h].sum = std::fma(block[h].sum, join, total[h].sum * keep);
      for_lanes(in.head_dim, [&](size_t d, size_t n) {
        float* to = out + h * in.head_dim + d;
        const Vec kept = Vec::load_first(to, n) * Vec::all(keep);
        Vec::fma(Vec::load_first(value + h * in.head_dim + d, n), Vec::all(join), kept).store_first(to, n);
      });
    }
  }
  for (size_t h = 0; h < kHeads; ++h) {
    const Vec inverse = Vec::all(1.0F / total[h].sum);
    for_lanes(in.head_dim, [&](size_t d, size_t n) {
      float* to = out + h * in.head_dim + d;
      (Vec::load_first(to, n) * inverse).store_first(to, n);
    });
  }
}

void attention(const AttentionInput& in, float* out) {
  size_t heads = 0;
  for (size_t h = 0; h < in.n_queries; h += heads) {
    heads = std::min(kMostHeads, in.n_queries - h);
    const auto run = heads == 1   ? attend<1>
                     : heads == 2 ? attend<2>
                     : heads == 3 ? attend<std::min<size_t>(3, kMostHeads)>
                                  : attend<kMostHeads>;
    run(in, in.query + h * in.head_dim, out + h * in.head_dim);
  }
}

}  // namespace
}  // namespace folio::infer::kernels
