// Training batches: random windows of a split, as a pure function of the seed and the batch number.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "data/tokens.h"

namespace folio::data {

/// A batch of windows, as row-major arrays [rows, length]. The targets are the inputs shifted by one token.
struct Batch {
  static constexpr int32_t kIgnored = -100;  ///< a target that is excluded from the loss

  int64_t rows = 0;
  int64_t length = 0;
  std::vector<int32_t> inputs{};
  std::vector<int32_t> targets{};
  /// For each input, the index in its row at which its sequence begins. Empty if each row is one sequence.
  std::vector<int32_t> starts{};

  [[nodiscard]] int64_t n_counted() const;  ///< targets that are not kIgnored
};

/// A function that returns batch `number`. The result does not depend on earlier calls.
using BatchOf = std::function<Batch(uint64_t number)>;

/// `n` batches: batch(0) to batch(n - 1).
struct Batches {
  uint64_t n = 0;
  BatchOf batch;
};

/// Divides `n_windows` windows of `length` inputs into batches of about 4,096 tokens. `batch` must return windows
/// [first, first + rows) as one batch.
[[nodiscard]] Batches in_batches(int64_t n_windows, int64_t length,
                                 std::function<Batch(int64_t first, int64_t rows)> batch);

/// Specifies what follows the end of a document in a window. Without a `token`, the window continues
/// with the next document.
struct DocumentEnd {
  std::optional<int32_t> token{};  ///< ends a document; the rest of the window is padding unless `masked`
  bool masked = false;             ///< the window continues with the next document as another sequence (Batch::starts)
};

class BatchSampler {
 public:
  /// Samples batches of `rows` windows of `length` inputs from `tokens`, which must outlive the sampler. Throws
  /// core::Error for fewer than length + 1 tokens.
  BatchSampler(TokenView tokens, int64_t rows, int64_t length, uint64_t seed, DocumentEnd document_end = {});

  /// Returns batch `number`, independent of the order of calls.
  [[nodiscard]] Batch batch(uint64_t number) const;

 private:
  TokenView tokens_;
  int64_t rows_;
  int64_t length_;
  uint64_t seed_;
  DocumentEnd document_end_;
};

/// Returns the number of consecutive windows of `length` inputs in `tokens`; each window's targets end one token later.
/// Throws core::Error if no window fits.
[[nodiscard]] int64_t consecutive_windows(TokenView tokens, int64_t length);

/// Returns windows [first, first + rows) of the consecutive windows of `tokens` as one batch.
[[nodiscard]] Batch consecutive_batch(TokenView tokens, int64_t first, int64_t rows, int64_t length,
                                      DocumentEnd document_end = {});

/// Returns all consecutive windows of `length` inputs, in batches of about 4,096 tokens. `tokens` must outlive the
/// result. Throws core::Error if no window fits.
[[nodiscard]] Batches consecutive_batches(TokenView tokens, int64_t length, DocumentEnd document_end = {});

}  // namespace folio::data
