// Training batches: random windows of a split, as a pure function of the seed and the batch's number.
#pragma once

#include <cstdint>
#include <vector>

#include "data/tokens.h"

namespace folio::data {

/// Row-major [rows, length]; targets are the inputs shifted by one.
struct Batch {
  int64_t rows = 0;
  int64_t length = 0;
  std::vector<int32_t> inputs;
  std::vector<int32_t> targets;
};

class BatchSampler {
 public:
  /// Throws core::Error if a window of length + 1 tokens does not fit the split.
  BatchSampler(TokenView tokens, int64_t rows, int64_t length, uint64_t seed);

  /// The batch of this number, independent of the order of calls.
  [[nodiscard]] Batch batch(uint64_t number) const;

 private:
  TokenView tokens_;
  int64_t rows_;
  int64_t length_;
  uint64_t seed_;
};

/// How many consecutive windows of `length` inputs fit; the last target is the token after the last window.
/// Throws core::Error if none fits.
[[nodiscard]] int64_t consecutive_windows(TokenView tokens, int64_t length);

/// Windows [first, first + rows) of the consecutive ones.
[[nodiscard]] Batch consecutive_batch(TokenView tokens, int64_t first, int64_t rows, int64_t length);

}  // namespace folio::data
