// Overflow-checked arithmetic on sizes read from a file.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace folio::core {

/// Returns a * b, or nullopt if it does not fit in 64 bits.
[[nodiscard]] inline std::optional<uint64_t> checked_mul(uint64_t a, uint64_t b) {
  uint64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

/// Returns a + b, or nullopt if it does not fit in 64 bits.
[[nodiscard]] inline std::optional<uint64_t> checked_add(uint64_t a, uint64_t b) {
  uint64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}

/// Returns the product of all dimensions, or nullopt if one is negative or the product does not fit in 64 bits.
[[nodiscard]] inline std::optional<uint64_t> checked_product(std::span<const int64_t> dimensions) {
  uint64_t product = 1;
  for (const int64_t d : dimensions) {
    if (d < 0 || __builtin_mul_overflow(product, static_cast<uint64_t>(d), &product)) return std::nullopt;
  }
  return product;
}

/// Returns the smallest multiple of `alignment` (a power of two) that is at least `offset`, or nullopt on overflow.
[[nodiscard]] inline std::optional<uint64_t> checked_align(uint64_t offset, uint64_t alignment) {
  const auto padded = checked_add(offset, alignment - 1);
  if (!padded) return std::nullopt;
  return *padded & ~(alignment - 1);
}

}  // namespace folio::core
