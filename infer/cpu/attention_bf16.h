// Attention with AVX-512 BF16 for --fast: queries, keys, values and softmax weights are BF16, two per 32-bit lane.
// Scores, the softmax and all sums are floats.
#pragma once

#include <bit>

#include "infer/cpu/attention_body.h"

namespace folio::infer::kernels {
namespace {

inline __m512bh pairs(Vec v) { return std::bit_cast<__m512bh>(v.v); }

template <>
struct Lane<BF16Pair> {
  static constexpr size_t kElements = 2;

  static Vec multiply_add(Vec a, Vec b, Vec sum) { return {_mm512_dpbf16_ps(sum.v, pairs(a), pairs(b))}; }
  static void put_query(const float* x, size_t head_dim, size_t stride, float* out) {
    alignas(64) float rounded[kLanes];
    for (size_t d = 0; d < head_dim; d += 2 * kLanes) {
      const size_t low = std::min(kLanes, head_dim - d);
      const size_t high = std::min(kLanes, head_dim - d - low);
      put_weights(Vec::load_first(x + d, low), Vec::load_first(x + d + low, high), rounded);
      for (size_t i = 0; i < (low + high) / 2; ++i) out[(d / 2 + i) * stride] = rounded[i];
    }
  }
  static Vec attended(Vec values, size_t j, size_t begin, size_t end) {
    const uint32_t kept = (2 * j >= begin ? 0xFFFFU : 0U) | (2 * j + 1 < end ? 0xFFFF0000U : 0U);
    return {_mm512_and_ps(values.v, _mm512_castsi512_ps(_mm512_set1_epi32(static_cast<int32_t>(kept))))};
  }
  // Rearranges latents (16 pairs of positions, head_dim) into keys (head_dim / 2 pairs of dimensions, 32 positions).
  static void put_keys(const BF16Pair* latents, size_t head_dim, BF16Pair* keys) {
    alignas(64) uint16_t from[2][2 * kLanes];  // [h]: indices that interleave two dimensions, positions 16h … 16h + 15
    for (size_t i = 0; i < 2 * kLanes; ++i) {
      for (size_t h = 0; h < 2; ++h) from[h][i] = static_cast<uint16_t>(h * kLanes + i / 2 + i % 2 * 2 * kLanes);
    }
    for (size_t d = 0; d < head_dim; d += kLanes) {
      Vec rows[kLanes], columns[kLanes];
      const size_t n = std::min(kLanes, head_dim - d);
      for (size_t i = 0; i < kLanes; ++i) rows[i] = Vec::load_first(latents + i * head_dim + d, n);
      Vec::transpose(rows, columns);
      for (size_t c = 0; c < n; c += 2) {
        for (size_t h = 0; h < 2; ++h) {
          const auto key = _mm512_permutex2var_epi16(_mm512_castps_si512(columns[c].v), _mm512_load_si512(from[h]),
                                                     _mm512_castps_si512(columns[c + 1].v));
          _mm512_storeu_si512(keys + (d + c) / 2 * kBlockPositions + h * kLanes, key);
        }
      }
    }
  }
  static void put_weights(Vec first, Vec second, float* out) {
    _mm512_storeu_si512(out, std::bit_cast<__m512i>(_mm512_cvtne2ps_pbh(second.v, first.v)));
  }
};

}  // namespace
}  // namespace folio::infer::kernels
