// Memory that running texts hold, by how it is handed out: the whole context at once, or blocks as a text grows.
#pragma once

#include <cstdint>
#include <vector>

namespace folio::experiments {

/// A text that is being written.
struct Text {
  int64_t now = 0;    ///< positions that it has
  int64_t final = 0;  ///< positions that it will have
};

/// How long texts become.
struct Lengths {
  const char* name;
  /// The length that a share `u` of the texts, 0 <= u < 1, stay below.
  double (*quantile)(double u, double mean);
};

/// `count` texts at a random moment. Final lengths are cut at `context`; each text is caught at a moment that is
/// uniform in its life.
[[nodiscard]] std::vector<Text> running_texts(const Lengths& lengths, int64_t count, double mean, int64_t context,
                                              uint64_t seed);

/// The positions that blocks of `block` positions hold for `positions`.
[[nodiscard]] constexpr int64_t held_in_blocks(int64_t positions, int64_t block) {
  return (positions + block - 1) / block * block;
}

/// Blocks that the engine's own bookkeeping has in use for the texts.
[[nodiscard]] int64_t engine_blocks(const std::vector<Text>& texts);

/// Blocks in use when `count` texts go on from one prompt that they share, and the copies that were made when each
/// wrote its first own position.
struct Shared {
  int64_t blocks = 0;
  int64_t copies = 0;
};
[[nodiscard]] Shared engine_blocks_of_shared_prompt(int64_t prompt, int64_t count);

}  // namespace folio::experiments
