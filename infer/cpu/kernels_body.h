// The vector kernels, written once for a Vec of sixteen floats and compiled once for each instruction set, in a file
// that is compiled only for it (avx2.cpp, avx512.cpp). Included after that set's vec_*.h; everything has internal
// linkage, so that no function compiled for one set is ever called on a machine that lacks it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "infer/reference/exp_constants.h"
#include "infer/reference/kernels.h"

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
// are `ahead` numbers from this one's, and are asked for: few inputs wait for weights, not for arithmetic, and the
// processor's own prefetching loses count of so many rows side by side.
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
      __builtin_prefetch(weight[r] + i + ahead);
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

// Queries (a head of a row each) that go through a block together: it is read once for all of them, and their sums,
// each one a chain of additions that wait for each other, fill each other's gaps. Each has two sums.
constexpr size_t kMostQueries = Vec::kMostSums / 2;

// The softmax of some queries so far, not yet divided: a query in each lane.
struct Running {
  Vec max;
  Vec sum;
};

// Prefetches vector i of sixteen numbers at p, once for each cache line: two vectors of 16-bit numbers share one.
template <typename T>
inline void prefetch_vector(const T* p, size_t i) {
  constexpr size_t kVectorsOfALine = 64 / (kLanes * sizeof(T));
  if (i % kVectorsOfALine == 0) __builtin_prefetch(p + i * kLanes);
}

// p: (kQueries, 32). value (kQueries, head_dim) = Σ_j p_j values[j] over the n[i] positions that query i sees, kVecs
// vectors of dimensions at a time so that their sums stay in registers. `next` is asked for meanwhile: as many numbers
// as the values are.
template <size_t kQueries, size_t kVecs, typename T>
inline void weighted_values(const float* p, const T* values, const size_t* n, size_t head_dim, const T* next,
                            float* value) {
  Vec sum[kQueries][kVecs];
  for (auto& of_query : sum) {
    for (Vec& s : of_query) s = Vec::zero();
  }
  for (size_t j = 0; j < n[0]; ++j) {
    Vec v[kVecs];
    for (size_t i = 0; i < kVecs; ++i) {
      v[i] = Vec::load(values + j * head_dim + i * kLanes);
      prefetch_vector(next + j * head_dim, i);
    }
    for (size_t q = 0; q < kQueries; ++q) {
      const Vec weight = Vec::all(p[q * kBlockPositions + j]);
      for (size_t i = 0; i < kVecs; ++i) sum[q][i] = Vec::fma(weight, v[i], sum[q][i]);
    }
  }
  for (size_t q = 0; q < kQueries; ++q) {
    for (size_t i = 0; i < kVecs; ++i) sum[q][i].store(value + q * head_dim + i * kLanes);
  }
  // What the later rows of a prompt see beyond the first.
  for (size_t q = 0; q < kQueries; ++q) {
    for (size_t j = n[0]; j < n[q]; ++j) {
      for (size_t i = 0; i < kVecs; ++i) {
        float* to = value + q * head_dim + i * kLanes;
        const Vec v = Vec::load(values + j * head_dim + i * kLanes);
        Vec::fma(Vec::all(p[q * kBlockPositions + j]), v, Vec::load(to)).store(to);
      }
    }
  }
}

template <typename T>
inline void weighted_values_tail(const float* p, const T* values, size_t n, size_t head_dim, size_t lanes,
                                 float* value) {
  Vec sum = Vec::zero();
  for (size_t j = 0; j < n; ++j) sum = Vec::fma(Vec::all(p[j]), Vec::load_first(values + j * head_dim, lanes), sum);
  sum.store_first(value, lanes);
}

// scores (kQueries, 32) = queries (head_dim, kQueries) times the first n columns of keys (head_dim, 32). `next` is
// asked for meanwhile.
template <size_t kQueries, typename T>
inline void multiply_keys(const float* queries, const T* keys, size_t n, size_t head_dim, const T* next,
                          float* scores) {
  const size_t n_first = std::min(n, kLanes);
  const size_t n_second = n - n_first;
  Vec first[kQueries];
  Vec second[kQueries];
  for (size_t q = 0; q < kQueries; ++q) first[q] = second[q] = Vec::zero();
  const auto add_dimension = [&](size_t d, Vec key_first, Vec key_second) {
    for (size_t q = 0; q < kQueries; ++q) {
      const Vec x = Vec::all(queries[d * kQueries + q]);
      first[q] = Vec::fma(x, key_first, first[q]);
      second[q] = Vec::fma(x, key_second, second[q]);
    }
  };
  for (size_t d = 0; d < head_dim; ++d) {
    const T* key = keys + d * kBlockPositions;
    prefetch_vector(next + d * kBlockPositions, 0);
    prefetch_vector(next + d * kBlockPositions, 1);
    if (n == kBlockPositions) {
      add_dimension(d, Vec::load(key), Vec::load(key + kLanes));
    } else {
      add_dimension(d, Vec::load_first(key, n_first),
                    n_second > 0 ? Vec::load_first(key + kLanes, n_second) : Vec::zero());
    }
  }
  for (size_t q = 0; q < kQueries; ++q) {
    first[q].store(scores + q * kBlockPositions);
    second[q].store(scores + q * kBlockPositions + kLanes);
  }
}

// queries (head_dim, kQueries); value (kQueries, head_dim); keys (head_dim, 32), values (32, head_dim), of which query
// i sees the first n[i] positions, n rising; see reference/attention.cpp. A block comes from far away: while its keys
// are multiplied its values are asked for, and then the keys of the next block.
template <size_t kQueries, typename T>
inline Running attend_block(const float* queries, const T* keys, const T* values, const size_t* n,
                            const AttentionInput<T>& in, const T* next_keys, float* value) {
  float p[kQueries * kBlockPositions];
  multiply_keys<kQueries>(queries, keys, n[kQueries - 1], in.head_dim, values, p);
  float max[kLanes] = {};
  Vec sums[kLanes];
  const Vec nothing = Vec::all(-std::numeric_limits<float>::infinity());
  for (size_t q = 0; q < kQueries; ++q) {
    const size_t n_first = std::min(n[q], kLanes);
    const size_t n_second = n[q] - n_first;
    float* of_query = p + q * kBlockPositions;
    Vec first = (Vec::load(of_query) * Vec::all(in.scale)).first_or(n_first, nothing);
    Vec second = (Vec::load(of_query + kLanes) * Vec::all(in.scale)).first_or(n_second, nothing);
    max[q] = Vec::max(first, second).largest();
    first = exp(first - Vec::all(max[q])).first_or(n_first, Vec::zero());
    second = exp(second - Vec::all(max[q])).first_or(n_second, Vec::zero());
    sums[q] = first + second;
    first.store(of_query);
    second.store(of_query + kLanes);
  }
  for (size_t q = kQueries; q < kLanes; ++q) sums[q] = sums[0];

  constexpr size_t kVecs = 4 * kQueries <= Vec::kMostSums ? 4 : 2;
  size_t d = 0;
  for (; d + kVecs * kLanes <= in.head_dim; d += kVecs * kLanes) {
    weighted_values<kQueries, kVecs>(p, values + d, n, in.head_dim, next_keys + d, value + d);
  }
  for (; d + 2 * kLanes <= in.head_dim; d += 2 * kLanes) {
    weighted_values<kQueries, 2>(p, values + d, n, in.head_dim, next_keys + d, value + d);
  }
  for (; d < in.head_dim; d += kLanes) {
    for (size_t q = 0; q < kQueries; ++q) {
      weighted_values_tail(p + q * kBlockPositions, values + d, n[q], in.head_dim, std::min(kLanes, in.head_dim - d),
                           value + q * in.head_dim + d);
    }
  }
  return {Vec::load(max), Vec::join_lanes(sums)};
}

// The queries from `begin` on of all (n_rows, n_queries).
template <size_t kQueries, typename T>
void attend(const AttentionInput<T>& in, size_t begin, float* out) {
  float queries[kMaxHeadDim * kQueries];  // (head_dim, kQueries)
  float total[kQueries * kMaxHeadDim];    // (kQueries, head_dim)
  float value[kQueries * kMaxHeadDim];
  size_t at[kQueries];  // in in.query and out
  size_t n_seen[kQueries];
  for (size_t q = 0; q < kQueries; ++q) {
    const size_t row = (begin + q) / in.n_queries;
    at[q] = row * in.row_stride + (begin + q) % in.n_queries * in.head_dim;
    n_seen[q] = in.n_positions + row;
    for (size_t d = 0; d < in.head_dim; ++d) queries[d * kQueries + q] = in.query[at[q] + d];
  }

  Running running{Vec::zero(), Vec::zero()};
  const size_t n_blocks = (in.n_positions + kBlockPositions - 1) / kBlockPositions;
  for (size_t b = 0; b < n_blocks; ++b) {
    size_t n[kQueries];
    for (size_t q = 0; q < kQueries; ++q) n[q] = std::min(kBlockPositions, n_seen[q] - b * kBlockPositions);
    const T* base = in.blocks[b];
    const T* next = in.blocks[std::min(b + 1, n_blocks - 1)];
    const Running block = attend_block<kQueries>(queries, base + in.key_offset, base + in.value_offset, n, in,
                                                 next + in.key_offset, b == 0 ? total : value);
    if (b == 0) {
      running = block;
      continue;
    }
    const Vec max = Vec::max(running.max, block.max);
    const Vec keeps = exp(running.max - max);
    const Vec joins = exp(block.max - max);
    running = {max, Vec::fma(block.sum, joins, running.sum * keeps)};
    float keep[kLanes];
    float join[kLanes];
    keeps.store(keep);
    joins.store(join);
    for (size_t q = 0; q < kQueries; ++q) {
      for_lanes(in.head_dim, [&](size_t d, size_t n_lanes) {
        const size_t i = q * in.head_dim + d;
        const Vec kept = Vec::load_first(total + i, n_lanes) * Vec::all(keep[q]);
        Vec::fma(Vec::load_first(value + i, n_lanes), Vec::all(join[q]), kept).store_first(total + i, n_lanes);
      });
    }
  }

  float inverse[kLanes];
  (Vec::all(1.0F) / running.sum).store(inverse);
  for (size_t q = 0; q < kQueries; ++q) {
    for_lanes(in.head_dim, [&](size_t d, size_t n_lanes) {
      (Vec::load_first(total + q * in.head_dim + d, n_lanes) * Vec::all(inverse[q]))
          .store_first(out + at[q] + d, n_lanes);
    });
  }
}

// Takes as many queries at once as are left and one of the sizes allows, the largest first; returns how many.
template <size_t kQueries, size_t... kFewer, typename T>
size_t attend_most(const AttentionInput<T>& in, size_t begin, size_t left, float* out) {
  if constexpr (kQueries > kMostQueries) {
    return attend_most<kFewer...>(in, begin, left, out);
  } else {
    if constexpr (sizeof...(kFewer) > 0) {
      if (kQueries > left) return attend_most<kFewer...>(in, begin, left, out);
    }
    attend<kQueries>(in, begin, out);
    return kQueries;
  }
}

template <typename T>
void attention(const AttentionInput<T>& in, float* out) {
  const size_t all = in.n_rows * in.n_queries;
  for (size_t done = 0; done < all;) done += attend_most<12, 8, 6, 4, 3, 2, 1>(in, done, all - done, out);
}

void to_f16(const float* x, size_t n, F16* out) {
  for_lanes(n, [&](size_t i, size_t count) { Vec::load_first(x + i, count).store_first(out + i, count); });
}

}  // namespace
}  // namespace folio::infer::kernels
