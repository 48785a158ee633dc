// Memory access of the study's matrix products. The same loops run with Direct, which counts nothing, and with
// CountingMemory, which counts loads, multiply-adds, and the lines that a small cache would fetch.
#pragma once

#include <cstddef>
#include <cstdint>

#include "experiments/common/line_cache.h"

namespace folio::experiments {

/// The operands of a matrix product out (n, r) = x (n, k) · wᵀ with w (r, k), row-major, as in the engine's matmul.
struct Product {
  const float* x;
  const float* w;
  float* out;
  size_t n, r, k;
};

/// Memory access without counting. Always inlined: files for different instruction sets must not share compiled code.
struct Direct {
  [[gnu::always_inline]] static float load(const float* from) { return *from; }
  [[gnu::always_inline]] static void store(float* to, float value) { *to = value; }
  [[gnu::always_inline]] static float multiply_add(float a, float b, float sum) { return sum + a * b; }
  /// Loads a vector of consecutive elements.
  template <typename Vec>
  [[gnu::always_inline]] static void load(const float* from, Vec& to) {
    __builtin_memcpy(&to, from, sizeof to);
  }
  template <typename Vec>
  [[gnu::always_inline]] static void multiply_add(const Vec& a, const Vec& b, Vec& sum) {
    sum += a * b;
  }
};

/// Counts operations, and the bytes that a simulated 256 KiB cache fetches for reads and writes. Ignores write-backs.
class CountingMemory {
 public:
  static constexpr size_t kCacheBytes = size_t{256} << 10U;

  /// Counts accesses to [begin, begin + count), which must contain all operands. `begin` must be cache-line aligned.
  CountingMemory(const float* begin, size_t count)
      : begin_(begin), cache_(kCacheBytes, (count + kOfLine - 1) / kOfLine) {}

  float load(const float* from) {
    ++loads_;
    touch(from);
    return *from;
  }
  void store(float* to, float value) {
    touch(to);
    *to = value;
  }
  float multiply_add(float a, float b, float sum) {
    ++multiply_adds_;
    return sum + a * b;
  }
  template <typename Vec>
  void load(const float* from, Vec& to) {  // the vector must not cross a cache line
    ++loads_;
    touch(from);
    __builtin_memcpy(&to, from, sizeof to);
  }
  template <typename Vec>
  void multiply_add(const Vec& a, const Vec& b, Vec& sum) {
    multiply_adds_ += sizeof(Vec) / sizeof(float);
    sum += a * b;
  }

  [[nodiscard]] uint64_t loads() const { return loads_; }
  [[nodiscard]] uint64_t multiply_adds() const { return multiply_adds_; }
  [[nodiscard]] uint64_t bytes() const { return cache_.bytes_fetched(); }

 private:
  static constexpr size_t kOfLine = LineCache::kLineBytes / sizeof(float);

  void touch(const float* at) { cache_.touch(static_cast<size_t>(at - begin_) / kOfLine, true, false); }

  const float* begin_;
  LineCache cache_;
  uint64_t loads_ = 0;
  uint64_t multiply_adds_ = 0;
};

}  // namespace folio::experiments
