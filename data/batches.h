// Training batches: random windows of a split, as a pure function of the seed and the batch's number.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "data/tokens.h"

namespace folio::data {

/// Row-major [rows, length]; targets are the inputs shifted by one.
struct Batch {
  static constexpr int32_t kIgnored = -100;  ///< a target that does not count

  int64_t rows = 0;
  int64_t length = 0;
  std::vector<int32_t> inputs;
  std::vector<int32_t> targets;
  /// Of each token, the place in its row at which its own sequence begins; empty: each row is one sequence.
  std::vector<int32_t> starts{};

  [[nodiscard]] int64_t n_counted() const;  ///< targets that do
};

/// Batches by their number, independent of the order of calls.
using BatchOf = std::function<Batch(uint64_t number)>;

/// `n` of them.
struct Batches {
  uint64_t n = 0;
  BatchOf batch;
};

/// How windows treat the end of a document. Without its token they continue with the next document.
struct DocumentEnd {
  std::optional<int32_t> token{};  ///< ends a document, and the window: the rest of it is this token, and no target
  bool masked = false;             ///< the window continues; the token begins the next sequence (Batch::starts)
};

class BatchSampler {
 public:
  /// Throws core::Error if a window of length + 1 tokens does not fit the split.
  BatchSampler(TokenView tokens, int64_t rows, int64_t length, uint64_t seed, DocumentEnd document_end = {});

  /// The batch of this number, independent of the order of calls.
  [[nodiscard]] Batch batch(uint64_t number) const;

 private:
  TokenView tokens_;
  int64_t rows_;
  int64_t length_;
  uint64_t seed_;
  DocumentEnd document_end_;
};

/// How many consecutive windows of `length` inputs fit; the last target is the token after the last window.
/// Throws core::Error if none fits.
[[nodiscard]] int64_t consecutive_windows(TokenView tokens, int64_t length);

/// Windows [first, first + rows) of the consecutive ones.
[[nodiscard]] Batch consecutive_batch(TokenView tokens, int64_t first, int64_t rows, int64_t length,
                                      DocumentEnd document_end = {});

/// All of the consecutive ones, some 4,096 tokens a batch. The view has to live as long. Throws likewise.
[[nodiscard]] Batches consecutive_batches(TokenView tokens, int64_t length, DocumentEnd document_end = {});

}  // namespace folio::data
