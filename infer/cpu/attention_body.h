// Attention over KV cache blocks of float, F16, Q8 or (attention_bf16.h) BF16 elements. Several queries share each read
// of a block.
#pragma once

#include <algorithm>
#include <array>
#include <limits>
#include <type_traits>

#include "infer/cpu/matmul_body.h"
#include "infer/cpu/prefetch.h"
#include "infer/cpu/vec_math.h"

namespace folio::infer::kernels {
namespace {

// Maximum number of queries (one head of one row each) that share the loads of a block. A sum is a chain of dependent
// FMAs. Computing several queries at once hides the FMA latency and converts each key and value to float only once.
constexpr size_t kMostQueries = Vec::kMostQueries;

// Online softmax state with one query per lane: the running maximum and the sum of exponentials.
struct Running {
  Vec max;
  Vec sum;
};

// Operations on the lanes of queries, keys, values and weights of type T: here a lane is one float. attention_bf16.h
// specializes this for pairs of BF16 elements.
template <typename T>
struct Lane {
  static constexpr size_t kElements = 1;  // per SIMD lane: dimensions of a key, or positions of a value dimension

  static Vec multiply_add(Vec a, Vec b, Vec sum) { return Vec::fma(a, b, sum); }
  // Writes x (head_dim) to out, where consecutive lanes are `stride` floats apart.
  static void put_query(const float* x, size_t head_dim, size_t stride, float* out) {
    for (size_t d = 0; d < head_dim; ++d) out[d * stride] = x[d];
  }
  // Zeroes the elements of row j of a block's values whose positions are outside [begin, end). No-op here: a row is one
  // position, which is always inside.
  static Vec attended(Vec values, size_t /*j*/, size_t /*begin*/, size_t /*end*/) { return values; }
  // Stores the weights of a block's first and second sixteen positions.
  static void put_weights(Vec first, Vec second, float* out) {
    first.store(out);
    second.store(out + kLanes);
  }
};

// Prefetches vector i at p, once per 64-byte cache line: a line holds one vector of float, two of F16, four of Q8. The
// target is L2, which allows more lines in flight than L1.
template <typename T>
inline void prefetch_vector(const T* p, size_t i) {
  constexpr size_t kVectorsOfALine = 64 / (kLanes * sizeof(T));
  if (i % kVectorsOfALine == 0) prefetch_line<Prefetch::L2>(p + i * kLanes);
}

// Prefetches the Q8 scales of a head's keys or values, which follow the quants in a cache block. Each group of 32
// dimensions has 32 F16 scales, one per position: one cache line. No-op for float and F16.
template <typename T>
inline void prefetch_scales(const T* head, size_t head_dim) {
  if constexpr (std::is_same_v<T, Q8>) {
    for (size_t g = 0; g < q8_groups(head_dim); ++g) prefetch_line<Prefetch::L2>(head + q8_scale(head_dim, g, 0));
  }
}

// Scales of kVecs vectors of keys, starting at `position`, for one group of dimensions. Float and F16 have no scales:
// one group spans the whole head, and scaled() returns its argument.
template <typename T, size_t kVecs>
struct KeyScales {
  static constexpr size_t kGroup = kMaxHeadDim;

  KeyScales(const T* /*keys*/, size_t /*head_dim*/, size_t /*group*/, size_t /*position*/) {}
  [[nodiscard]] Vec scaled(Vec keys, size_t /*i*/) const { return keys; }
};

template <size_t kVecs>
struct KeyScales<Q8, kVecs> {
  static constexpr size_t kGroup = kQ8Group;
  Vec scales[kVecs];

  KeyScales(const Q8* keys, size_t head_dim, size_t group, size_t position) {
    const auto* of_group = reinterpret_cast<const F16*>(keys + q8_scale(head_dim, group, position));
    for (size_t i = 0; i < kVecs; ++i) scales[i] = Vec::load(of_group + i * kLanes);
  }
  [[nodiscard]] Vec scaled(Vec keys, size_t i) const { return keys * scales[i]; }
};

// Scales of a head's values: scaled() dequantizes dimensions [d, d + 16) of position j. No-op for float and F16.
template <typename T>
struct ValueScales {
  ValueScales(const T* /*values*/, size_t /*head_dim*/) {}
  [[nodiscard]] Vec scaled(Vec values, size_t /*j*/, size_t /*d*/) const { return values; }
};

template <>
struct ValueScales<Q8> {
  float scales[q8_groups(kMaxHeadDim) * kBlockPositions];  // (groups, 32): one per group of dimensions and position

  ValueScales(const Q8* values, size_t head_dim) {
    const auto* narrow = reinterpret_cast<const F16*>(values + q8_scale(head_dim, 0, 0));
    for (size_t i = 0; i < q8_groups(head_dim) * kBlockPositions; i += kLanes) Vec::load(narrow + i).store(scales + i);
  }
  [[nodiscard]] Vec scaled(Vec values, size_t j, size_t d) const {
    return values * Vec::all(scales[d / kQ8Group * kBlockPositions + j]);
  }
};

// A head's values (the V of attention) in one cache block.
template <typename T>
struct Values {
  const T* numbers;  // (32 positions, head_dim)
  size_t head_dim;
  size_t width;  // elements of a value that are used: head_dim, or the value part of a latent
  ValueScales<T> scales;
  const T* next;  // values of the next block, prefetched while these are read

  // Loads dimensions [d, d + 16) of row j: position j, or positions 2j and 2j + 1 for BF16Pair. load_first() loads only
  // the first n of these dimensions.
  [[nodiscard]] Vec load(size_t j, size_t d) const {
    return scales.scaled(Vec::load(numbers + j * head_dim + d), j, d);
  }
  [[nodiscard]] Vec load_first(size_t j, size_t d, size_t n) const {
    return scales.scaled(Vec::load_first(numbers + j * head_dim + d, n), j, d);
  }
};

// Positions of a block that each query attends to: [begin[q], end[q]). Both are non-decreasing in q.
template <size_t kQueries>
struct SeenPositions {
  size_t begin[kQueries];
  size_t end[kQueries];
};

// Adds Σ_j p[j] values[j] over positions [begin, end) to value (head_dim), in dimensions [d, d + 16 kVecs).
template <size_t kVecs, typename T>
inline void add_values(const float* p, const Values<T>& values, size_t d, size_t begin, size_t end, float* value) {
  for (size_t j = begin / Lane<T>::kElements; j * Lane<T>::kElements < end; ++j) {
    for (size_t i = d; i < d + kVecs * kLanes; i += kLanes) {
      const Vec v = Lane<T>::attended(values.load(j, i), j, begin, end);
      Lane<T>::multiply_add(Vec::all(p[j]), v, Vec::load(value + i)).store(value + i);
    }
  }
}

// Computes value (kQueries, head_dim) = Σ_j p[j] values[j] over the positions that each query attends to, in dimensions
// [d, d + 16 kVecs). p is (kQueries, 32). The sums stay in registers.
template <size_t kQueries, size_t kVecs, typename T>
inline void weighted_values(const float* p, const Values<T>& values, size_t d, const SeenPositions<kQueries>& seen,
                            float* value) {
  const size_t head_dim = values.head_dim;
  // All queries attend to [begin, end), which is rounded inward to multiples of kElements. With a sliding window,
  // earlier rows also attend to positions before `begin`.
  constexpr size_t kElements = Lane<T>::kElements;
  const size_t begin = (seen.begin[kQueries - 1] + kElements - 1) / kElements * kElements;
  const size_t end = seen.end[0] / kElements * kElements;
  const bool more_before = seen.begin[0] < begin;
  if (more_before) {
    for (size_t q = 0; q < kQueries; ++q) {
      float* to = value + q * head_dim;
      for (size_t i = 0; i < kVecs; ++i) Vec::zero().store(to + d + i * kLanes);
      add_values<kVecs>(p + q * kBlockPositions, values, d, seen.begin[q], std::min(begin, seen.end[q]), to);
    }
  }
  Vec sum[kQueries][kVecs];
  for (size_t q = 0; q < kQueries; ++q) {
    for (size_t i = 0; i < kVecs; ++i) {
      sum[q][i] = more_before ? Vec::load(value + q * head_dim + d + i * kLanes) : Vec::zero();
    }
  }
  for (size_t j = begin / kElements; j < end / kElements; ++j) {
    Vec v[kVecs];
    for (size_t i = 0; i < kVecs; ++i) {
      v[i] = values.load(j, d + i * kLanes);
      prefetch_vector(values.next + j * head_dim, d / kLanes + i);
    }
    for (size_t q = 0; q < kQueries; ++q) {
      const Vec weight = Vec::all(p[q * kBlockPositions + j]);
      for (size_t i = 0; i < kVecs; ++i) sum[q][i] = Lane<T>::multiply_add(weight, v[i], sum[q][i]);
    }
  }
  for (size_t q = 0; q < kQueries; ++q) {
    for (size_t i = 0; i < kVecs; ++i) sum[q][i].store(value + q * head_dim + d + i * kLanes);
  }
  // In a prompt, later rows also attend to positions from `end` on, which the first row does not.
  for (size_t q = 0; q < kQueries; ++q) {
    add_values<kVecs>(p + q * kBlockPositions, values, d, std::max(begin, end), seen.end[q], value + q * head_dim);
  }
}

template <typename T>
inline void weighted_values_tail(const float* p, const Values<T>& values, size_t d, size_t begin, size_t end,
                                 float* value) {
  const size_t lanes = std::min(kLanes, values.width - d);
  Vec sum = Vec::zero();
  for (size_t j = begin / Lane<T>::kElements; j * Lane<T>::kElements < end; ++j) {
    const Vec v = Lane<T>::attended(values.load_first(j, d, lanes), j, begin, end);
    sum = Lane<T>::multiply_add(Vec::all(p[j]), v, sum);
  }
  sum.store_first(value + d, lanes);
}

// Computes scores (kQueries, 32) from queries (lanes, kQueries) and keys (lanes, 32), where head_dim values are in
// head_dim / Lane<T>::kElements lanes. Only the scores of the first n positions are valid. Prefetches `next`, the next
// block's keys. Computes 32 positions at a time if their sums fit in registers, else 16.
template <size_t kQueries, typename T>
inline void multiply_keys(const float* queries, const T* keys, size_t n, size_t head_dim, const T* next,
                          float* scores) {
  constexpr size_t kVecs = 2 * kQueries <= Vec::kMostSums ? 2 : 1;
  using Scales = KeyScales<T, kVecs>;
  const size_t depth = head_dim / Lane<T>::kElements;
  for (size_t first = 0; first < kBlockPositions; first += kVecs * kLanes) {
    Vec sum[kQueries][kVecs];
    for (size_t q = 0; q < kQueries; ++q) {
      for (size_t i = 0; i < kVecs; ++i) sum[q][i] = Vec::zero();
    }
    for (size_t group = 0; first < n && group < depth; group += Scales::kGroup) {
      const Scales scales(keys, head_dim, group / Scales::kGroup, first);
      for (size_t d = group; d < std::min(depth, group + Scales::kGroup); ++d) {
        Vec key[kVecs];
        for (size_t i = 0; i < kVecs; ++i) {
          const size_t at = d * kBlockPositions + first + i * kLanes;
          prefetch_vector(next, at / kLanes);
          key[i] = scales.scaled(Vec::load(keys + at), i);
        }
        for (size_t q = 0; q < kQueries; ++q) {
          const Vec x = Vec::all(queries[d * kQueries + q]);
          for (size_t i = 0; i < kVecs; ++i) sum[q][i] = Lane<T>::multiply_add(x, key[i], sum[q][i]);
        }
      }
    }
    for (size_t q = 0; q < kQueries; ++q) {
      for (size_t i = 0; i < kVecs; ++i) sum[q][i].store(scores + q * kBlockPositions + first + i * kLanes);
    }
  }
}

// True if latents of type T are multiplied as they are stored, row by row. Q8 is converted to float first, and BF16Pair
// is rearranged into keys.
template <typename T>
constexpr bool kByRows = std::is_same_v<T, float> || std::is_same_v<T, F16>;

// Computes scores (kQueries, 32) from queries (kQueries, head_dim) and latents (32, head_dim). Only the scores of the
// first n positions are valid.
template <size_t kQueries, typename T>
inline void multiply_latents(const float* queries, const T* latents, size_t n, size_t head_dim, float* scores) {
  std::fill_n(scores, kQueries * kBlockPositions, 0.0F);
  matmul_tiles<4, Prefetch::None>(queries, kQueries, latents, head_dim, 0, n, scores, kBlockPositions, false);
}

// A head's keys and values in one block and the next. Blocks are scattered in memory, so the next block's keys are
// prefetched while keys are read, and its values while values are read.
template <typename T>
struct HeadBlock {
  const T* keys;    // (head_dim, 32 positions); null: the values are the keys (latent attention, unless T is BF16Pair)
  const T* values;  // (32 positions, head_dim)
  const T* next_keys;
  const T* next_values;
  size_t width;  // elements of a value that are used: head_dim, or the value part of a latent
};

// Scale and soft cap of attention scores: of() scales products of query and key, then soft-caps them if cap > 0.
struct Scores {
  float scale;
  float cap;

  [[nodiscard, gnu::always_inline]] Vec of(Vec products) const {
    const Vec scores = products * Vec::all(scale);
    return cap > 0.0F ? soft_cap(scores, cap) : scores;
  }
};

// Computes a block's softmax state and its unnormalized output `value` (kQueries, head_dim). queries: (head_dim,
// kQueries); in latent attention, except with BF16Pair, (kQueries, head_dim). The order of the sums is that of
// reference/attention.cpp.
template <size_t kQueries, typename T>
inline Running attend_block(const float* queries, const HeadBlock<T>& block, const SeenPositions<kQueries>& seen,
                            size_t head_dim, const Scores& scores, float* value) {
  float p[kQueries * kBlockPositions];
  const bool latent = kByRows<T> && block.keys == nullptr;
  if constexpr (kByRows<T>) {
    if (latent) multiply_latents<kQueries>(queries, block.values, seen.end[kQueries - 1], head_dim, p);
  }
  if (!latent) {
    prefetch_scales(block.next_keys, head_dim);
    multiply_keys<kQueries>(queries, block.keys, seen.end[kQueries - 1], head_dim, block.next_keys, p);
  }
  float max[kLanes] = {};
  Vec sums[kLanes];
  const Vec nothing = Vec::all(-std::numeric_limits<float>::infinity());
  for (size_t q = 0; q < kQueries; ++q) {
    const size_t n_first = std::min(seen.end[q], kLanes);
    const size_t n_second = seen.end[q] - n_first;
    const size_t unseen_first = std::min(seen.begin[q], kLanes);
    const size_t unseen_second = seen.begin[q] - unseen_first;
    float* of_query = p + q * kBlockPositions;
    Vec first = scores.of(Vec::load(of_query)).first_or(n_first, nothing);
    Vec second = scores.of(Vec::load(of_query + kLanes)).first_or(n_second, nothing);
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
    Lane<T>::put_weights(first, second, of_query);
  }
  for (size_t q = kQueries; q < kLanes; ++q) sums[q] = sums[0];

  prefetch_scales(block.next_values, head_dim);
  const Values<T> values{block.values, head_dim, block.width, {block.values, head_dim}, block.next_values};
  constexpr size_t kVecs = 4 * kQueries <= Vec::kMostSums ? 4 : 2 * kQueries <= Vec::kMostSums ? 2 : 1;
  size_t d = 0;
  for (; d + kVecs * kLanes <= block.width; d += kVecs * kLanes) {
    weighted_values<kQueries, kVecs>(p, values, d, seen, value);
  }
  for (; kVecs > 2 && d + 2 * kLanes <= block.width; d += 2 * kLanes) {
    weighted_values<kQueries, 2>(p, values, d, seen, value);
  }
  for (; d < block.width; d += kLanes) {
    for (size_t q = 0; q < kQueries; ++q) {
      weighted_values_tail(p + q * kBlockPositions, values, d, seen.begin[q], seen.end[q], value + q * head_dim);
    }
  }
  return {Vec::load(max), Vec::join_lanes(sums)};
}

// Queries (one head of one row each) that share the reads of a block, and their softmax state.
struct SharedQueries {
  size_t n_queries;
  size_t at[kMostQueries];  // offset of each query in AttentionInput::query and in the output
  SeenPositions<kMostQueries> positions;
  Running running;
  float* queries;  // (head_dim, n_queries); in latent attention except with BF16Pair, (n_queries, head_dim)
  float* total;    // (n_queries, head_dim): sum of the weighted values so far, not yet divided by the sum of weights
};

// Attends to the block that begins at position `start`. Updates the queries' softmax state and total, or initializes
// them if is_first.
template <size_t kQueries, typename T>
void attend(SharedQueries& shared, const HeadBlock<T>& head, size_t start, bool is_first, size_t head_dim,
            const Scores& scores) {
  float value[kQueries * kMaxHeadDim];
  SeenPositions<kQueries> seen;
  for (size_t q = 0; q < kQueries; ++q) {
    seen.begin[q] = std::max(shared.positions.begin[q], start) - start;
    seen.end[q] = std::min(kBlockPositions, shared.positions.end[q] - start);
  }
  const Running block =
      attend_block<kQueries>(shared.queries, head, seen, head_dim, scores, is_first ? shared.total : value);
  if (is_first) {
    shared.running = block;
    return;
  }
  const Running before = shared.running;
  const Vec max = Vec::max(before.max, block.max);
  const Vec keeps = exp(before.max - max);
  const Vec joins = exp(block.max - max);
  shared.running = {max, Vec::fma(block.sum, joins, before.sum * keeps)};
  float keep[kLanes];
  float join[kLanes];
  keeps.store(keep);
  joins.store(join);
  for (size_t q = 0; q < kQueries; ++q) {
    float* total = shared.total + q * head_dim;
    for_lanes(head.width, [&](size_t d, size_t n_lanes) {
      const Vec kept = Vec::load_first(total + d, n_lanes) * Vec::all(keep[q]);
      const Vec v = Vec::load_first(value + q * head_dim + d, n_lanes);
      Vec::fma(v, Vec::all(join[q]), kept).store_first(total + d, n_lanes);
    });
  }
}

// A kernel that computes one block's attention for n_queries queries at once.
template <typename T>
struct BlockAttention {
  size_t n_queries = 0;  ///< number of queries that run() processes; 0: no kernel for this instruction set
  void (*run)(SharedQueries& shared, const HeadBlock<T>& head, size_t start, bool is_first, size_t head_dim,
              const Scores& scores) = nullptr;
};

template <typename T, size_t kQueries>
constexpr BlockAttention<T> attend_of() {
  if constexpr (kQueries <= kMostQueries) {
    return {kQueries, attend<kQueries, T>};
  } else {
    return {};
  }
}

// Maximum number of queries that attend to a block, in one or more passes, while the block is in the CPU's cache.
constexpr size_t kNearQueries = 24;

// Returns the HeadBlock of n latents; `next` are the next block's latents. `buffer` receives the latents converted to
// floats (Q8) or rearranged into keys (BF16Pair); it is unused for float and F16.
template <typename T, typename Element>
HeadBlock<Element> block_of_latents(const T* latents, const T* next, size_t n, size_t head_dim, size_t width,
                                    Element* buffer) {
  if constexpr (std::is_same_v<T, Q8>) {
    const Values<Q8> values{latents, head_dim, head_dim, {latents, head_dim}, latents};
    for (size_t j = 0; j < n; ++j) {
      for_lanes(head_dim, [&](size_t d, size_t n_lanes) {
        values.load_first(j, d, n_lanes).store_first(buffer + j * head_dim + d, n_lanes);
      });
    }
    return {nullptr, buffer, nullptr, buffer, width};
  } else if constexpr (kByRows<T>) {
    return {nullptr, latents, nullptr, next, width};
  } else {
    Lane<T>::put_keys(latents, head_dim, buffer);
    return {buffer, latents, buffer, next, width};
  }
}

// Computes attention for queries [begin, end) of all n_rows * n_queries, numbered row by row. end - begin must be at
// most kNearQueries.
template <typename T, bool kLatent>
void attend_near(const AttentionInput<T>& in, size_t begin, size_t end, float* out) {
  using Element = std::conditional_t<kLatent && std::is_same_v<T, Q8>, float, T>;
  static constexpr std::array kAttend{attend_of<Element, 12>(), attend_of<Element, 8>(), attend_of<Element, 6>(),
                                      attend_of<Element, 4>(),  attend_of<Element, 3>(), attend_of<Element, 2>(),
                                      attend_of<Element, 1>()};
  const size_t width = value_dim(in);
  float queries[kNearQueries * kMaxHeadDim];
  float totals[kNearQueries * kMaxHeadDim];
  SharedQueries passes[kNearQueries];
  const BlockAttention<Element>* attends[kNearQueries];
  size_t n_passes = 0;
  for (size_t first = begin; first < end; ++n_passes) {
    const auto* most = kAttend.begin();
    while (most->n_queries == 0 || most->n_queries > end - first) ++most;
    attends[n_passes] = most;
    SharedQueries& shared = passes[n_passes];
    shared.n_queries = most->n_queries;
    shared.queries = queries + (first - begin) * in.head_dim;
    shared.total = totals + (first - begin) * in.head_dim;
    for (size_t q = 0; q < shared.n_queries; ++q, ++first) {
      const size_t row = first / in.n_queries;
      shared.at[q] = row * in.row_stride + first % in.n_queries * in.head_dim;
      shared.positions.end[q] = in.n_positions + row;
      shared.positions.begin[q] = shared.positions.end[q] - std::min(shared.positions.end[q], in.window);
      if constexpr (kLatent && kByRows<Element>) {
        std::copy_n(in.query + shared.at[q], in.head_dim, shared.queries + q * in.head_dim);
      } else {
        Lane<T>::put_query(in.query + shared.at[q], in.head_dim, shared.n_queries, shared.queries + q);
      }
    }
  }

  const Scores scores{in.scale, in.cap};
  const size_t n_blocks = (in.n_positions + kBlockPositions - 1) / kBlockPositions;
  const size_t first_seen = in.n_positions + begin / in.n_queries;  // end of the first row's attended positions
  const size_t first_block = (first_seen - std::min(first_seen, in.window)) / kBlockPositions;
  [[maybe_unused]] Element buffer[kLatent && !kByRows<T> ? kBlockPositions * kMaxHeadDim : 1];
  for (size_t b = first_block; b < n_blocks; ++b) {
    const size_t start = b * kBlockPositions;
    const T* base = in.blocks[b];
    const T* next = in.blocks[std::min(b + 1, n_blocks - 1)];
    HeadBlock<Element> head;
    if constexpr (kLatent) {
      const size_t n = std::min(kBlockPositions, in.n_positions + in.n_rows - 1 - start);
      head = block_of_latents(base + in.value_offset, next + in.value_offset, n, in.head_dim, width, buffer);
    } else {
      head = {base + in.key_offset, base + in.value_offset, next + in.key_offset, next + in.value_offset, width};
    }
    for (size_t i = 0; i < n_passes; ++i) {
      attends[i]->run(passes[i], head, start, b == first_block, in.head_dim, scores);
    }
  }

  for (size_t i = 0; i < n_passes; ++i) {
    float inverse[kLanes];
    if (in.sinks == nullptr) {
      (Vec::all(1.0F) / passes[i].running.sum).store(inverse);
    } else {
      float sinks[kLanes] = {};
      for (size_t q = 0; q < passes[i].n_queries; ++q) {
        sinks[q] = in.sinks[passes[i].at[q] % in.row_stride / in.head_dim];
      }
      const Running& all = passes[i].running;
      const Vec sink = Vec::load(sinks);
      const Vec max = Vec::max(all.max, sink);
      const Vec keeps = exp(all.max - max);
      (keeps / Vec::fma(all.sum, keeps, exp(sink - max))).store(inverse);
    }
    for (size_t q = 0; q < passes[i].n_queries; ++q) {
      for_lanes(width, [&](size_t d, size_t n_lanes) {
        (Vec::load_first(passes[i].total + q * in.head_dim + d, n_lanes) * Vec::all(inverse[q]))
            .store_first(out + passes[i].at[q] + d, n_lanes);
      });
    }
  }
}

template <typename T>
void attention(const AttentionInput<T>& in, float* out) {
  const size_t all = in.n_rows * in.n_queries;
  for (size_t done = 0; done < all; done += kNearQueries) {
    const size_t end = std::min(all, done + kNearQueries);
    in.latent_rank > 0 ? attend_near<T, true>(in, done, end, out) : attend_near<T, false>(in, done, end, out);
  }
}

}  // namespace
}  // namespace folio::infer::kernels
