// Reads memory as fast as one core can, for measurements of bandwidth.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace folio::experiments {

/// Reads `words`, except up to 31 at the end, with 32 independent accumulators, so that compilers vectorize the loop.
/// Returns a value that depends on all words read: using it prevents the compiler from removing the reads.
[[nodiscard]] inline uint64_t read_all(std::span<const uint64_t> words) {
  uint64_t lanes[32] = {};
  for (size_t i = 0; i + 32 <= words.size(); i += 32) {
    for (size_t l = 0; l < 32; ++l) lanes[l] ^= words[i + l];
  }
  uint64_t sum = 0;
  for (const uint64_t lane : lanes) sum += lane;
  return sum;
}

}  // namespace folio::experiments
