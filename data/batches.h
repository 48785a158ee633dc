// Batches of token windows: random windows for training and consecutive windows for evaluation. A random batch depends
// only on the seed and the batch number.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "data/tokens.h"

namespace folio::data {

/// A batch of windows, as row-major arrays [rows, length]. Each target is the token that follows its input.
struct Batch {
  static constexpr int32_t kIgnored = -100;  ///< a target that is excluded from the loss

  int64_t rows = 0;
  int64_t length = 0;
  std::vector<int32_t> inputs{};
  std::vector<int32_t> targets{};
  /// For each input, the index within the row at which the input's sequence begins: attention does not cross it. Empty
  /// if each row is one sequence.
  std::vector<int32_t> starts{};

  [[nodiscard]] int64_t n_counted() const;  ///< number of targets other than kIgnored
};

/// A function that returns batch `number`. The result does not depend on earlier calls.
using BatchOf = std::function<Batch(uint64_t number)>;

/// `n` batches: batch(0) to batch(n - 1).
struct Batches {
  uint64_t n = 0;
  BatchOf batch;
};

/// Divides `n_windows` windows of `length` inputs into batches of at most 4,096 tokens, but at least one window. The
/// function `batch` must return windows [first, first + rows) as one batch.
[[nodiscard]] Batches in_batches(int64_t n_windows, int64_t length,
                                 std::function<Batch(int64_t first, int64_t rows)> batch);

/// Specifies how a window continues after the end of a document. Without a `token`, ends of documents are ignored: the
/// next document follows in the same sequence.
struct DocumentEnd {
  std::optional<int32_t> token{};  ///< ends each document; the rest of the window is padding unless `masked`
  bool masked = false;             ///< no padding: the next document follows as a separate sequence (Batch::starts)
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

/// Returns the number of consecutive windows of `length` inputs in `tokens`. A window also needs a target: the token
/// after its last input. Throws core::Error if no window fits.
[[nodiscard]] int64_t consecutive_windows(TokenView tokens, int64_t length);

/// Returns windows [first, first + rows) as one batch. Window i has the inputs [i * length, (i + 1) * length). Throws
/// core::Error if a window is out of range.
[[nodiscard]] Batch consecutive_batch(TokenView tokens, int64_t first, int64_t rows, int64_t length,
                                      DocumentEnd document_end = {});

/// Returns all consecutive windows of `length` inputs, in batches of at most 4,096 tokens (but at least one window).
/// `tokens` must outlive the result. Throws core::Error if no window fits.
[[nodiscard]] Batches consecutive_batches(TokenView tokens, int64_t length, DocumentEnd document_end = {});

}  // namespace folio::data
