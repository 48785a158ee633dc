// Reads memory as fast as a core can: what a measurement of bandwidth repeats.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace folio::core {

/// Reads `words`, but for less than 32 at the end, in lanes that compilers turn into vector instructions. The result
/// depends on every word, so none is left out if it is used.
[[nodiscard]] inline uint64_t read_all(std::span<const uint64_t> words) {
  uint64_t lanes[32] = {};
  for (size_t i = 0; i + 32 <= words.size(); i += 32) {
    for (size_t l = 0; l < 32; ++l) lanes[l] ^= words[i + l];
  }
  uint64_t sum = 0;
  for (const uint64_t lane : lanes) sum += lane;
  return sum;
}

}  // namespace folio::core
