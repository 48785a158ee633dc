#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "infer/reference/reference.h"

namespace folio::infer::kernels::reference {
namespace {

// Attention over one KV block, not yet normalized. For scores s and values v: max = max s, sum = Σ e^(s-max) and
// value = Σ e^(s-max) v.
struct Partial {
  float max;
  float sum;
  std::array<float, kMaxHeadDim> value;
};

// Returns element i of a head's keys or values as a float. Position j and dimension d select the scale of a Q8 element.
template <typename T>
float number(const T* numbers, size_t i, size_t /*j*/, size_t /*d*/, size_t /*head_dim*/) {
  return widened(numbers[i]);
}
float number(const Q8* numbers, size_t i, size_t j, size_t d, size_t head_dim) {
  F16 scale{};
  std::memcpy(&scale, numbers + q8_scale(head_dim, d / kQ8Group, j), sizeof scale);
  return widened(scale) * static_cast<float>(numbers[i].quant);
}

// Returns the dot product of a query (head_dim) and the key of position j.
template <typename T>
float score_of(const float* query, const T* keys, size_t j, size_t head_dim) {
  float score = 0.0F;
  for (size_t d = 0; d < head_dim; ++d) {
    score = std::fma(query[d], number(keys, d * kBlockPositions + j, j, d, head_dim), score);
  }
  return score;
}

// Returns the dot product of a query (head_dim) and the latent of position j, summed in the same order as matmul.
template <typename T>
float score_of_latent(const float* query, const T* latents, size_t j, size_t head_dim) {
  std::array<float, kMaxHeadDim> latent;
  for (size_t d = 0; d < head_dim; ++d) latent[d] = number(latents, j * head_dim + d, j, d, head_dim);
  return dot(query, latent.data(), head_dim);
}

// Returns Σ p[j] v[j, d] over positions [begin, n). p is 0 at all other positions.
template <typename T>
float value_of(const float* p, const T* values, size_t begin, size_t n, size_t d, size_t head_dim) {
  float total = 0.0F;
  for (size_t j = begin; j < n; ++j) total = std::fma(p[j], number(values, j * head_dim + d, j, d, head_dim), total);
  return total;
}

BF16Pair rounded(const float* x) { return {core::float_to_bf16(flushed(x[0])), core::float_to_bf16(flushed(x[1]))}; }

float score_of(const float* query, const BF16Pair* keys, size_t j, size_t head_dim) {
  float score = 0.0F;
  for (size_t d = 0; d < head_dim; d += 2) {
    score = add_pair(rounded(query + d), keys[d / 2 * kBlockPositions + j], score);
  }
  return score;
}

float score_of_latent(const float* query, const BF16Pair* latents, size_t j, size_t head_dim) {
  const BF16Pair* pairs = latents + j / 2 * head_dim;
  float score = 0.0F;
  for (size_t d = 0; d < head_dim; d += 2) {
    score = add_pair(rounded(query + d), {pairs[d].of[j % 2], pairs[d + 1].of[j % 2]}, score);
  }
  return score;
}

float value_of(const float* p, const BF16Pair* values, size_t begin, size_t n, size_t d, size_t head_dim) {
  float total = 0.0F;
  for (size_t j = begin / 2 * 2; j < n; j += 2) {
    BF16Pair value = values[j / 2 * head_dim + d];
    if (j < begin) value.of[0] = {};
    if (j + 1 >= n) value.of[1] = {};
    total = add_pair(rounded(p + j), value, total);
  }
  return total;
}

// Computes `partial` over positions [begin, n) of a block with keys (head_dim, 32) and values (32, head_dim).
template <typename T>
void attend_block(const float* query, const T* keys, const T* values, size_t begin, size_t n,
                  const AttentionInput<T>& in, Partial& partial) {
  std::array<float, kBlockPositions> p{};
  partial.max = -std::numeric_limits<float>::infinity();
  for (size_t j = begin; j < n; ++j) {
    p[j] = in.latent_rank > 0 ? score_of_latent(query, values, j, in.head_dim) : score_of(query, keys, j, in.head_dim);
    p[j] *= in.scale;
    if (in.cap > 0.0F) soft_cap(&p[j], 1, in.cap);
    partial.max = std::max(partial.max, p[j]);
  }
  std::array<float, kLanes> lane{};
  for (size_t j = begin; j < n; ++j) {
    p[j] = exp(p[j] - partial.max);
    lane[j % kLanes] += p[j];
  }
  partial.sum = join_lanes(lane);
  for (size_t d = 0; d < value_dim(in); ++d) {
    partial.value[d] = value_of(p.data(), values, begin, n, d, in.head_dim);
  }
}

template <typename T>
void attend(const float* query, size_t n_positions, const AttentionInput<T>& in, const float* sink, float* out) {
  Partial total{};
  Partial block{};
  const size_t begin = n_positions - std::min(n_positions, in.window);
  const size_t first_block = begin / kBlockPositions * kBlockPositions;
  for (size_t first = first_block; first < n_positions; first += kBlockPositions) {
    const T* base = in.blocks[first / kBlockPositions];
    Partial& target = first == first_block ? total : block;
    attend_block(query, base + in.key_offset, base + in.value_offset, std::max(begin, first) - first,
                 std::min(kBlockPositions, n_positions - first), in, target);
    if (first == first_block) continue;
    const float max = std::max(total.max, block.max);
    const float keep = exp(total.max - max);
    const float join = exp(block.max - max);
    total.max = max;
    total.sum = std::fma(block.sum, join, total.sum * keep);
    for (size_t d = 0; d < value_dim(in); ++d) {
      total.value[d] = std::fma(block.value[d], join, total.value[d] * keep);
    }
  }
  float inverse = 1.0F / total.sum;
  if (sink != nullptr) {
    const float max = std::max(total.max, *sink);
    const float keep = exp(total.max - max);
    inverse = keep / std::fma(total.sum, keep, exp(*sink - max));
  }
  for (size_t d = 0; d < value_dim(in); ++d) out[d] = total.value[d] * inverse;
}

}  // namespace

template <typename T>
void attention(const AttentionInput<T>& in, float* out) {
  for (size_t r = 0; r < in.n_rows; ++r) {
    for (size_t h = 0; h < in.n_queries; ++h) {
      const size_t at = r * in.row_stride + h * in.head_dim;
      attend(in.query + at, in.n_positions + r, in, in.sinks == nullptr ? nullptr : in.sinks + h, out + at);
    }
  }
}

template Attention<float> attention<float>;
template Attention<F16> attention<F16>;
template Attention<Q8> attention<Q8>;
template Attention<BF16Pair> attention<BF16Pair>;

}  // namespace folio::infer::kernels::reference
