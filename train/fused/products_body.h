// Small matrix products C [m, n] (+)= A B for attention, whose matrices fit in a core's cache. A is read one element at
// a time with any strides (so Aᵀ costs nothing extra), B and C in whole vectors. A tile of C stays in registers during
// the loop over k, and products are accumulated in the order of k.
//
// An element holds kGroup consecutive values along k: one value, or two bfloat16 values where the machine adds both
// products to a float in one instruction (AVX512_BF16's vdpbf16ps).
#pragma once

#include "train/fused/numbers.h"

#if defined(__AVX512BF16__)
#include <immintrin.h>
#endif

namespace folio::train::fused {
namespace {

#if defined(__AVX512F__)
constexpr size_t kVectorBytes = 64;
constexpr size_t kTile = 16;  // vectors of C held in registers
#elif defined(__AVX__)
constexpr size_t kVectorBytes = 32;
constexpr size_t kTile = 8;
#else
constexpr size_t kVectorBytes = 16;
constexpr size_t kTile = 8;
#endif

/// Rounds up to a multiple of 16, the floats in the widest vector, so that rows of scratch memory need no tail loop.
inline size_t padded(size_t count) { return (count + 15) / 16 * 16; }

/// Multiplication of matrices of type T: packed elements of type E, accumulated in type R.
template <typename T>
struct Arithmetic {
  using R = Real<T>;
  using E = R;
  static constexpr size_t kGroup = 1;
  typedef R Vector __attribute__((vector_size(kVectorBytes), may_alias));
  typedef R Elements __attribute__((vector_size(kVectorBytes), may_alias));

  static void multiply_add(Vector& sum, E a, const Elements& b) { sum += a * b; }
  template <typename X>
  static E pack(X x) {
    return real(x);
  }
};

#if defined(__AVX512BF16__)
template <>
struct Arithmetic<BFloat16> {
  using R = float;
  using E = uint32_t;  ///< two bfloat16 values, the first in the lower half
  static constexpr size_t kGroup = 2;
  using Vector = __m512;
  using Elements = __m512i;

  static void multiply_add(Vector& sum, E a, const Elements& b) {
    sum = _mm512_dpbf16_ps(sum, std::bit_cast<__m512bh>(_mm512_set1_epi32(static_cast<int>(a))),
                           std::bit_cast<__m512bh>(b));
  }
  static E pack(BFloat16 first, BFloat16 second) {
    return static_cast<E>(first.bits) | static_cast<E>(second.bits) << 16U;
  }
  static E pack(float first, float second) { return pack(rounded<BFloat16>(first), rounded<BFloat16>(second)); }
};
#endif

/// The left matrix A [m, k] of a product, with any strides: m × k / kGroup elements of kGroup values each.
template <typename E>
struct StridedMatrix {
  const E* data;
  size_t row_stride, column_stride;
};

template <typename P, size_t kRows, size_t kVectors>
inline void tile(const StridedMatrix<typename P::E>& a, const typename P::E* b, size_t b_stride, size_t k,
                 typename P::R* c, size_t c_stride, bool add) {
  using Vector = typename P::Vector;
  using Elements = typename P::Elements;
  constexpr size_t kLanes = kVectorBytes / sizeof(typename P::R);
  Vector sums[kRows][kVectors];
  for (size_t i = 0; i < kRows; ++i) {
    for (size_t v = 0; v < kVectors; ++v) {
      sums[i][v] = add ? *reinterpret_cast<const Vector*>(c + i * c_stride + v * kLanes) : Vector{};
    }
  }
  for (size_t l = 0; l < k; ++l) {
    Elements row[kVectors];
    for (size_t v = 0; v < kVectors; ++v) row[v] = *reinterpret_cast<const Elements*>(b + l * b_stride + v * kLanes);
    for (size_t i = 0; i < kRows; ++i) {
      const auto x = a.data[i * a.row_stride + l * a.column_stride];
      for (size_t v = 0; v < kVectors; ++v) P::multiply_add(sums[i][v], x, row[v]);
    }
  }
  for (size_t i = 0; i < kRows; ++i) {
    for (size_t v = 0; v < kVectors; ++v) *reinterpret_cast<Vector*>(c + i * c_stride + v * kLanes) = sums[i][v];
  }
}

template <typename P, size_t kVectors>
inline void columns(size_t m, const StridedMatrix<typename P::E>& a, const typename P::E* b, size_t b_stride, size_t k,
                    typename P::R* c, size_t c_stride, bool add) {
  constexpr size_t kRows = kTile / kVectors;
  size_t i = 0;
  const auto rest = [&] {
    return StridedMatrix<typename P::E>{a.data + i * a.row_stride, a.row_stride, a.column_stride};
  };
  for (; i + kRows <= m; i += kRows) tile<P, kRows, kVectors>(rest(), b, b_stride, k, c + i * c_stride, c_stride, add);
  for (; i < m; ++i) tile<P, 1, kVectors>(rest(), b, b_stride, k, c + i * c_stride, c_stride, add);
}

/// Computes C = A B, or C += A B if `add`. k counts values, not packed elements. If k is not a multiple of kGroup, the
/// padding must be 0 in A or B. n must be a multiple of 16, and rows of B and C must be aligned to vectors.
template <typename P>
inline void multiply(size_t m, size_t n, size_t k, const StridedMatrix<typename P::E>& a, const typename P::E* b,
                     size_t b_stride, typename P::R* c, size_t c_stride, bool add) {
  constexpr size_t kLanes = kVectorBytes / sizeof(typename P::R);
  k = (k + P::kGroup - 1) / P::kGroup;
  size_t j = 0;
  for (; j + 4 * kLanes <= n; j += 4 * kLanes) columns<P, 4>(m, a, b + j, b_stride, k, c + j, c_stride, add);
  for (; j + 2 * kLanes <= n; j += 2 * kLanes) columns<P, 2>(m, a, b + j, b_stride, k, c + j, c_stride, add);
  for (; j + kLanes <= n; j += kLanes) columns<P, 1>(m, a, b + j, b_stride, k, c + j, c_stride, add);
}

// Functions that pack x [n, dim], with row stride x_stride, into elements. Padding is zero.

/// Packs x as the matrix A of multiply(), with k = dim, a multiple of kGroup. Each element of out [n, stride >=
/// dim / kGroup] contains kGroup values of a row.
template <typename T, typename X>
inline void pack_rows(const X* x, size_t x_stride, size_t n, size_t dim, typename Arithmetic<T>::E* out,
                      size_t stride) {
  using P = Arithmetic<T>;
  for (size_t i = 0; i < n; ++i, x += x_stride, out += stride) {
    if constexpr (P::kGroup == 1) {
#pragma omp simd
      for (size_t d = 0; d < dim; ++d) out[d] = P::pack(x[d]);
    } else {
#pragma omp simd
      for (size_t d = 0; d < dim / 2; ++d) out[d] = P::pack(x[2 * d], x[2 * d + 1]);
    }
    for (size_t d = dim / P::kGroup; d < stride; ++d) out[d] = {};
  }
}

/// Packs x as the matrix B or Aᵀ of multiply(), with k = n. Each element of out [n / kGroup rounded up, stride >= dim]
/// contains kGroup values of a column.
template <typename T, typename X>
inline void pack_row_groups(const X* x, size_t x_stride, size_t n, size_t dim, typename Arithmetic<T>::E* out,
                            size_t stride) {
  using P = Arithmetic<T>;
  if constexpr (P::kGroup == 1) {
    pack_rows<T>(x, x_stride, n, dim, out, stride);
  } else {
    for (size_t i = 0; i < n; i += 2, x += 2 * x_stride, out += stride) {
      if (i + 1 < n) {
#pragma omp simd
        for (size_t d = 0; d < dim; ++d) out[d] = P::pack(x[d], x[x_stride + d]);
      } else {
#pragma omp simd
        for (size_t d = 0; d < dim; ++d) out[d] = P::pack(x[d], X{});
      }
      for (size_t d = dim; d < stride; ++d) out[d] = {};
    }
  }
}

/// Packs xᵀ as the matrix B of multiply(), with k = dim, a multiple of kGroup. Each element of out [dim / kGroup,
/// stride >= n] contains kGroup values of a row of x. `stride` must be a multiple of 16.
template <typename T>
inline void pack_columns(const T* x, size_t x_stride, size_t n, size_t dim, typename Arithmetic<T>::E* out,
                         size_t stride) {
  using P = Arithmetic<T>;
  // Blocks of 16 rows of x fill whole cache lines of out.
  for (size_t i = 0; i < stride; i += 16) {
    for (size_t d = 0; d < dim / P::kGroup; ++d) {
      for (size_t row = i; row < i + 16; ++row) {
        const T* from = x + row * x_stride + d * P::kGroup;
        if constexpr (P::kGroup == 1) {
          out[d * stride + row] = row < n ? P::pack(*from) : typename P::E{};
        } else {
          out[d * stride + row] = row < n ? P::pack(from[0], from[1]) : typename P::E{};
        }
      }
    }
  }
}

}  // namespace
}  // namespace folio::train::fused
