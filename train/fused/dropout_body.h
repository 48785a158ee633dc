// Dropout without a stored mask: a hash of the key, the row and the column decides which elements are dropped, and the
// backward pass computes the same hash again.
// out = x + m ⊙ y / (1 - p), so dy = m ⊙ dout / (1 - p), with a mask m of zeros and ones and dropout probability p.
#pragma once

#include "train/fused/numbers.h"

namespace folio::train::fused {
namespace {

/// Returns the hash key of a row. The mixing function is splitmix64's (Steele, Lea & Flood, 2014).
inline uint32_t row_key(uint64_t key, uint64_t row) {
  uint64_t z = key + (row + 1) * 0x9E3779B97F4A7C15ULL;
  z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27U)) * 0x94D049BB133111EBULL;
  return static_cast<uint32_t>((z ^ (z >> 31U)) >> 16U);
}

/// Returns a hash, uniform in [0, 2³²). Constants: Wellons, "Prospecting for Hash Functions", 2018 (lowbias32).
inline uint32_t hash(uint32_t row_key, uint32_t column) {
  uint32_t x = row_key + column * 0x9E3779B9U;
  x = (x ^ (x >> 16U)) * 0x7FEB352DU;
  x = (x ^ (x >> 15U)) * 0x846CA68BU;
  return x ^ (x >> 16U);
}

/// The dropout mask of one row: 0 for dropped columns, `scale` for the others.
template <typename R>
struct RowMask {
  RowMask(const Dropout& dropout, uint64_t row)
      : key(row_key(dropout.key, row)), threshold(dropout.threshold), scale(static_cast<R>(dropout.scale)) {}

  R operator()(size_t column) const { return hash(key, static_cast<uint32_t>(column)) >= threshold ? scale : R{0}; }

  uint32_t key, threshold;
  R scale;
};

/// Calls body(mask) with the row's dropout mask, or with a mask of ones if dropout is off.
template <typename R, typename Body>
inline void with_mask(const Dropout& dropout, uint64_t row, Body&& body) {
  if (dropout.on()) {
    body(RowMask<R>(dropout, row));
  } else {
    body([](size_t) { return R{1}; });
  }
}
template <typename T>
void add(const Real<T>* x, const T* y, const Dropout& dropout, size_t first, size_t n, size_t dim, Real<T>* out) {
  for (size_t i = 0; i < n; ++i, x += dim, y += dim, out += dim) {
    with_mask<Real<T>>(dropout, first + i, [&](const auto& mask) {
#pragma omp simd
      for (size_t j = 0; j < dim; ++j) out[j] = x[j] + mask(j) * real(y[j]);
    });
  }
}

template <typename T>
void drop(const Real<T>* dout, const Dropout& dropout, size_t first, size_t n, size_t dim, T* dy) {
  for (size_t i = 0; i < n; ++i, dout += dim, dy += dim) {
    with_mask<Real<T>>(dropout, first + i, [&](const auto& mask) {
#pragma omp simd
      for (size_t j = 0; j < dim; ++j) dy[j] = rounded<T>(mask(j) * dout[j]);
    });
  }
}

}  // namespace
}  // namespace folio::train::fused
