// How the ranks of a model hand each other their parts of the activations. A rank computes some output rows of each
// matrix, and some heads; what it has computed goes to all others as it is, so no sum crosses a border between ranks,
// and each number is the one that a single machine computes.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

#include "infer/forward/slots.h"

namespace folio::infer {

/// Of some rows of a slot the columns [first, last).
struct SlotPart {
  Slot slot;
  size_t first_row = 0;
  size_t n_rows = 0;
  size_t first = 0;
  size_t last = 0;
};

class Exchange {
 public:
  virtual ~Exchange() = default;
  /// Where the slots of a rank lie in the step that begins, (rows, width) each; before any rank gives anything.
  virtual void begin(size_t rank, const std::array<float*, kSlots>& slots, const SlotWidths& widths) = 0;
  /// The rank has computed the part. The others get it; of Logits, rank 0 alone.
  virtual void give(size_t rank, const SlotPart& part) = 0;
  /// Returns when all ranks have come: what they gave is there. Between two meetings a rank gives no part whose place
  /// another one may still read. Throws core::Error if a rank failed.
  virtual void meet() = 0;
};

/// Of n things, those of one rank of several.
struct Share {
  size_t first;
  size_t last;
};

[[nodiscard]] constexpr Share share_of(size_t n, size_t rank, size_t n_ranks) {
  return {n * rank / n_ranks, n * (rank + 1) / n_ranks};
}

inline constexpr size_t kShardRows = 16;  ///< a matrix is split between tiles of so many output rows

[[nodiscard]] constexpr size_t shard_tiles(size_t n_rows) { return (n_rows + kShardRows - 1) / kShardRows; }

/// The output rows of a matrix that a rank has; none where there are more ranks than tiles.
[[nodiscard]] constexpr Share rows_of_rank(size_t n_rows, size_t rank, size_t n_ranks) {
  const Share tiles = share_of(shard_tiles(n_rows), rank, n_ranks);
  return {std::min(n_rows, tiles.first * kShardRows), std::min(n_rows, tiles.last * kShardRows)};
}

}  // namespace folio::infer
