// Random numbers as a pure function of a seed and a counter, which is the only state. SplitMix64 (Steele, Lea & Flood
// 2014) is a bijection that passes BigCrush on consecutive counters.
#pragma once

#include <unistd.h>

#include <cstdint>

#include "core/error.h"

namespace folio::core {

[[nodiscard]] constexpr uint64_t splitmix64(uint64_t x) {
  x += 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27U)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31U);
}

/// Returns 64 random bits for this seed and counter.
[[nodiscard]] constexpr uint64_t random_bits(uint64_t seed, uint64_t counter) {
  return splitmix64(splitmix64(seed) ^ counter);
}

/// Returns a uniform number in [0, 1) with 53 random bits.
[[nodiscard]] constexpr double random_uniform(uint64_t seed, uint64_t counter) {
  return static_cast<double>(random_bits(seed, counter) >> 11U) * 0x1.0p-53;
}

/// Returns a uniform number in [0, n) for n > 0, by multiplication (Lemire 2019); its bias is below n / 2^64.
[[nodiscard]] constexpr uint64_t random_below(uint64_t seed, uint64_t counter, uint64_t n) {
  return static_cast<uint64_t>((static_cast<unsigned __int128>(random_bits(seed, counter)) * n) >> 64U);
}

/// Returns 64 random bits from the operating system. Throws Error if the system call fails. (std::random_device would
/// raise the minimum C library version of the Python package.)
[[nodiscard]] inline uint64_t system_random() {
  uint64_t bits = 0;
  require(getentropy(&bits, sizeof bits) == 0, "the system provides no random numbers");
  return bits;
}

}  // namespace folio::core
