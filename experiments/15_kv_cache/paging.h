// Memory held by running sequences under two allocation schemes: the whole context at once, or blocks as a sequence
// grows.
#pragma once

#include <cstdint>
#include <vector>

namespace folio::experiments {

/// A sequence that is being generated.
struct Text {
  int64_t now = 0;    ///< current number of positions
  int64_t final = 0;  ///< final number of positions
};

/// A distribution of final lengths.
struct Lengths {
  const char* name;
  /// Returns the length that a fraction `u` of the sequences, 0 <= u < 1, stays below.
  double (*quantile)(double u, double mean);
};

/// Returns `count` sequences at a random moment: each is at a uniformly drawn point between start and end. Final
/// lengths are cut at `context`.
[[nodiscard]] std::vector<Text> running_texts(const Lengths& lengths, int64_t count, double mean, int64_t context,
                                              uint64_t seed);

/// Returns the positions allocated for `positions` in blocks of `block`.
[[nodiscard]] constexpr int64_t held_in_blocks(int64_t positions, int64_t block) {
  return (positions + block - 1) / block * block;
}

/// Returns the number of blocks that the engine's block manager uses for the sequences.
[[nodiscard]] int64_t engine_blocks(const std::vector<Text>& texts);

/// Blocks used by `count` sequences that share a prompt, and the copies made when each wrote its first own position.
struct Shared {
  int64_t blocks = 0;
  int64_t copies = 0;
};
[[nodiscard]] Shared engine_blocks_of_shared_prompt(int64_t prompt, int64_t count);

}  // namespace folio::experiments
