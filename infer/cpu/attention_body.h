// Attention over the blocks of the cache, whose elements T are float or F16. Several queries read a block together.
#pragma once

#include <algorithm>
#include <array>
#include <limits>

#include "infer/cpu/vec_math.h"

namespace folio::infer::kernels {
namespace {

// The most queries (one head of one row each) that read a block together. Each needs two sums. A sum is a chain of
// dependent additions, so with several queries the processor works on one while another waits.
constexpr size_t kMostQueries = Vec::kMostSums / 2;

// The softmax of some queries so far, before the division. Each lane is a query.
struct Running {
  Vec max;
  Vec sum;
};

// Prefetches vector i at p, once for each cache line: two vectors of 16-bit numbers share one.
template <typename T>
inline void prefetch_vector(const T* p, size_t i) {
  constexpr size_t kVectorsOfALine = 64 / (kLanes * sizeof(T));
  if (i % kVectorsOfALine == 0) __builtin_prefetch(p + i * kLanes);
}

// The positions of a block that each query sees, [begin[i], end[i]). Both increase with the row.
template <size_t kQueries>
struct Seen {
  size_t begin[kQueries];
  size_t end[kQueries];
};

// value (head_dim) += Σ_j p[j] values[j] over j in [begin, end), for kVecs vectors of dimensions.
template <size_t kVecs, typename T>
inline void add_values(const float* p, const T* values, size_t begin, size_t end, size_t head_dim, float* value) {
  for (size_t j = begin; j < end; ++j) {
    for (size_t i = 0; i < kVecs; ++i) {
      float* to = value + i * kLanes;
      Vec::fma(Vec::all(p[j]), Vec::load(values + j * head_dim + i * kLanes), Vec::load(to)).store(to);
    }
  }
}

// value (kQueries, head_dim) = Σ_j p[j] values[j] with p (kQueries, 32), over the positions that a query sees.
// Computes kVecs vectors of dimensions, whose sums stay in registers. Prefetches as many elements at `next`.
template <size_t kQueries, size_t kVecs, typename T>
inline void weighted_values(const float* p, const T* values, const Seen<kQueries>& seen, size_t head_dim, const T* next,
                            float* value) {
  // What all queries see is added for all together. With a sliding window earlier rows see more positions before.
  const size_t begin = seen.begin[kQueries - 1];
  const size_t end = seen.end[0];
  const bool more_before = seen.begin[0] < begin;
  if (more_before) {
    for (size_t q = 0; q < kQueries; ++q) {
      float* to = value + q * head_dim;
      for (size_t i = 0; i < kVecs; ++i) Vec::zero().store(to + i * kLanes);
      add_values<kVecs>(p + q * kBlockPositions, values, seen.begin[q], std::min(begin, seen.end[q]), head_dim, to);
    }
  }
  Vec sum[kQueries][kVecs];
  for (size_t q = 0; q < kQueries; ++q) {
    for (size_t i = 0; i < kVecs; ++i) {
      sum[q][i] = more_before ? Vec::load(value + q * head_dim + i * kLanes) : Vec::zero();
    }
  }
  for (size_t j = begin; j < end; ++j) {
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
  // Later rows of a prompt see more positions than the first.
  for (size_t q = 0; q < kQueries; ++q) {
    add_values<kVecs>(p + q * kBlockPositions, values, std::max(begin, end), seen.end[q], head_dim,
                      value + q * head_dim);
  }
}

template <typename T>
inline void weighted_values_tail(const float* p, const T* values, size_t begin, size_t end, size_t head_dim,
                                 size_t lanes, float* value) {
  Vec sum = Vec::zero();
  for (size_t j = begin; j < end; ++j)
    sum = Vec::fma(Vec::all(p[j]), Vec::load_first(values + j * head_dim, lanes), sum);
  sum.store_first(value, lanes);
}

// scores (kQueries, 32) = queries (head_dim, kQueries) times the first n columns of keys (head_dim, 32). Prefetches as
// many elements at `next`.
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

// queries (head_dim, kQueries); value (kQueries, head_dim); keys (head_dim, 32), values (32, head_dim). See
// reference/attention.cpp. Blocks are scattered in memory, so prefetch the values now and the next keys afterwards.
template <size_t kQueries, typename T>
inline Running attend_block(const float* queries, const T* keys, const T* values, const Seen<kQueries>& seen,
                            const AttentionInput<T>& in, const T* next_keys, float* value) {
  float p[kQueries * kBlockPositions];
  multiply_keys<kQueries>(queries, keys, seen.end[kQueries - 1], in.head_dim, values, p);
  float max[kLanes] = {};
  Vec sums[kLanes];
  const Vec nothing = Vec::all(-std::numeric_limits<float>::infinity());
  for (size_t q = 0; q < kQueries; ++q) {
    const size_t n_first = std::min(seen.end[q], kLanes);
    const size_t n_second = seen.end[q] - n_first;
    const size_t unseen_first = std::min(seen.begin[q], kLanes);
    const size_t unseen_second = seen.begin[q] - unseen_first;
    float* of_query = p + q * kBlockPositions;
    Vec first = (Vec::load(of_query) * Vec::all(in.scale)).first_or(n_first, nothing);
    Vec second = (Vec::load(of_query + kLanes) * Vec::all(in.scale)).first_or(n_second, nothing);
    if (seen.begin[q] > 0) {
      first = nothing.first_or(unseen_first, first);
      second = nothing.first_or(unseen_second, second);
    }
    max[q] = Vec::max(first, second).largest();
    first = exp(first - Vec::all(max[q])).first_or(n_first, Vec::zero());
    second = exp(second - Vec::all(max[q])).first_or(n_second, Vec::zero());
    if (seen.begin[q] > 0) {
      first = Vec::zero().first_or(unseen_first, first);
      second = Vec::zero().first_or(unseen_second, second);
    }
    sums[q] = first + second;
    first.store(of_query);
    second.store(of_query + kLanes);
  }
  for (size_t q = kQueries; q < kLanes; ++q) sums[q] = sums[0];

  constexpr size_t kVecs = 4 * kQueries <= Vec::kMostSums ? 4 : 2;
  size_t d = 0;
  for (; d + kVecs * kLanes <= in.head_dim; d += kVecs * kLanes) {
    weighted_values<kQueries, kVecs>(p, values + d, seen, in.head_dim, next_keys + d, value + d);
  }
  for (; d + 2 * kLanes <= in.head_dim; d += 2 * kLanes) {
    weighted_values<kQueries, 2>(p, values + d, seen, in.head_dim, next_keys + d, value + d);
  }
  for (; d < in.head_dim; d += kLanes) {
    for (size_t q = 0; q < kQueries; ++q) {
      weighted_values_tail(p + q * kBlockPositions, values + d, seen.begin[q], seen.end[q], in.head_dim,
                           std::min(kLanes, in.head_dim - d), value + q * in.head_dim + d);
    }
  }
  return {Vec::load(max), Vec::join_lanes(sums)};
}

// Queries [begin, begin + kQueries) of the n_rows * n_queries.
template <size_t kQueries, typename T>
void attend(const AttentionInput<T>& in, size_t begin, float* out) {
  float queries[kMaxHeadDim * kQueries];  // (head_dim, kQueries)
  float total[kQueries * kMaxHeadDim];    // (kQueries, head_dim)
  float value[kQueries * kMaxHeadDim];
  size_t at[kQueries];  // the offset in in.query and in out
  Seen<kQueries> positions;
  for (size_t q = 0; q < kQueries; ++q) {
    const size_t row = (begin + q) / in.n_queries;
    at[q] = row * in.row_stride + (begin + q) % in.n_queries * in.head_dim;
    positions.end[q] = in.n_positions + row;
    positions.begin[q] = positions.end[q] - std::min(positions.end[q], in.window);
    for (size_t d = 0; d < in.head_dim; ++d) queries[d * kQueries + q] = in.query[at[q] + d];
  }

  Running running{Vec::zero(), Vec::zero()};
  const size_t n_blocks = (in.n_positions + kBlockPositions - 1) / kBlockPositions;
  const size_t first_block = positions.begin[0] / kBlockPositions;
  for (size_t b = first_block; b < n_blocks; ++b) {
    const size_t start = b * kBlockPositions;
    Seen<kQueries> seen;
    for (size_t q = 0; q < kQueries; ++q) {
      seen.begin[q] = std::max(positions.begin[q], start) - start;
      seen.end[q] = std::min(kBlockPositions, positions.end[q] - start);
    }
    const T* base = in.blocks[b];
    const T* next = in.blocks[std::min(b + 1, n_blocks - 1)];
    const Running block = attend_block<kQueries>(queries, base + in.key_offset, base + in.value_offset, seen, in,
                                                 next + in.key_offset, b == first_block ? total : value);
    if (b == first_block) {
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

// A number of queries that goes through the cache together.
template <typename T>
struct Attend {
  size_t n_queries = 0;  ///< 0: more than this instruction set takes
  void (*run)(const AttentionInput<T>& in, size_t begin, float* out) = nullptr;
};

template <typename T, size_t kQueries>
constexpr Attend<T> attend_of() {
  if constexpr (kQueries <= kMostQueries) {
    return {kQueries, attend<kQueries, T>};
  } else {
    return {};
  }
}

template <typename T>
void attention(const AttentionInput<T>& in, float* out) {
  static constexpr std::array kAttend{attend_of<T, 12>(), attend_of<T, 8>(), attend_of<T, 6>(), attend_of<T, 4>(),
                                      attend_of<T, 3>(),  attend_of<T, 2>(), attend_of<T, 1>()};
  const size_t all = in.n_rows * in.n_queries;
  for (size_t done = 0; done < all;) {
    const auto* most = kAttend.begin();
    while (most->n_queries == 0 || most->n_queries > all - done) ++most;
    most->run(in, done, out);
    done += most->n_queries;
  }
}

}  // namespace
}  // namespace folio::infer::kernels
