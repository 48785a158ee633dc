// Compares two ways to allocate the KV cache of running sequences: the whole context at the start, or blocks as a
// sequence grows.
#pragma once

#include <cstdint>
#include <vector>

namespace folio::experiments {

/// A sequence that is being generated.
struct Sequence {
  int64_t now = 0;    ///< number of positions so far
  int64_t final = 0;  ///< number of positions when the output is complete
};

/// A distribution of the number of positions that sequences reach.
struct Lengths {
  const char* name;
  /// Returns the `u`-quantile, 0 <= u < 1, of the distribution with this mean, in positions.
  double (*quantile)(double u, double mean);
};

/// Draws `count` sequences in the middle of generation. Final lengths are drawn from `lengths` with the mean `mean`,
/// and limited to `context`; the current length is uniform from 1 to the final one. All lengths are in positions.
[[nodiscard]] std::vector<Sequence> running_sequences(const Lengths& lengths, int64_t count, double mean,
                                                      int64_t context, uint64_t seed);

/// Returns `positions` rounded up to a multiple of `block`: the positions in the allocated blocks.
[[nodiscard]] constexpr int64_t held_in_blocks(int64_t positions, int64_t block) {
  return (positions + block - 1) / block * block;
}

/// Returns the number of blocks that the engine's BlockManager allocates for the sequences' current positions.
[[nodiscard]] int64_t engine_blocks(const std::vector<Sequence>& sequences);

/// The KV blocks of sequences that share a prompt: the number in use, and the number copied on write.
struct Shared {
  int64_t blocks = 0;
  int64_t copies = 0;
};
/// Returns the block counts after `count` forks of a prompt with `prompt` positions have each added one position.
[[nodiscard]] Shared engine_blocks_of_shared_prompt(int64_t prompt, int64_t count);

}  // namespace folio::experiments
