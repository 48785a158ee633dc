// One sequence of a request: its tokens, the blocks of the cache that hold their keys and values, and its rows in
// flight. How it continues is for policies to decide: policy.h.
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "infer/cache/block_manager.h"
#include "infer/forward/runner.h"

namespace folio::infer {

/// Requests are numbered in the order in which they come.
using RequestId = int64_t;

/// A sequence by its request and its index there.
struct SequenceKey {
  RequestId request;
  size_t index;

  [[nodiscard]] auto operator<=>(const SequenceKey&) const = default;
};

class Sequence {
 public:
  /// Requirements that the scheduler must know before the sequence starts.
  struct Needs {
    int64_t max_positions;         ///< that it may come to hold
    size_t n_together = 1;         ///< sequences of its request that start and are preempted as one; 1: each by itself
    int32_t adapter = kNoAdapter;  ///< computes its keys and values
    bool alone = false;            ///< no other sequence takes part in its steps
  };

  /// The tokens of `prompt` and the cache must outlive it.
  Sequence(SequenceKey key, std::span<const int32_t> prompt, const Needs& needs, BlockManager& cache)
      : key_(key), prompt_(prompt), needs_(needs), cache_(cache) {}
  Sequence(const Sequence&) = delete;
  Sequence& operator=(const Sequence&) = delete;

  [[nodiscard]] SequenceKey key() const { return key_; }
  [[nodiscard]] RequestId request() const { return key_.request; }
  [[nodiscard]] size_t index() const { return key_.index; }
  [[nodiscard]] const Needs& needs() const { return needs_; }
  [[nodiscard]] bool runs() const { return id_ >= 0; }
  /// Its id in the cache while it runs.
  [[nodiscard]] SequenceId id() const { return id_; }
  /// Tokens that were cached when it last started.
  [[nodiscard]] int64_t n_cached() const { return n_cached_; }

  /// The prompt and all that was generated.
  [[nodiscard]] std::span<const int32_t> history() const {
    return history_.empty() ? prompt_ : std::span<const int32_t>(history_);
  }
  [[nodiscard]] std::span<const int32_t> generated() const { return history().subspan(prompt_.size()); }
  /// The history without the tokens that slid out of the context: the cache holds their keys and values.
  [[nodiscard]] std::span<const int32_t> tokens() const { return history().subspan(first_); }
  [[nodiscard]] size_t first() const { return first_; }
  void append(int32_t token) {
    if (history_.empty()) history_.assign(prompt_.begin(), prompt_.end());
    history_.push_back(token);
  }
  /// Drops the tokens before `first` of the history from the context, and recomputes the others.
  void slide_to(size_t first) {
    recall(static_cast<size_t>(runs() ? cache_.length(id_) : 0));
    first_ = first;
  }

  /// The number of its first tokens that need not be computed if they are cached: never the last, whose logits give
  /// the next token.
  [[nodiscard]] size_t shareable() const { return std::min(tokens().empty() ? 0 : tokens().size() - 1, compute_from_); }
  /// Tokens from this index on must be computed, even if they are cached.
  void compute_from(size_t index) { compute_from_ = index; }
  /// Rows after those of its tokens, which it would try in the next step if nothing else needs them.
  [[nodiscard]] size_t n_optional() const { return n_optional_; }
  void set_optional(size_t n_rows) { n_optional_ = n_rows; }

  /// Tokens of the history that were computed.
  [[nodiscard]] size_t n_computed() const { return n_held() - in_flight_; }
  /// Tokens of the history that the cache does not hold. It may hold the row of one that is still being drawn.
  [[nodiscard]] size_t n_missing() const { return history().size() - std::min(n_held(), history().size()); }
  /// The row of token `index` of the history, which may be one that is still being drawn.
  [[nodiscard]] Row row(size_t index, int32_t token) const {
    return {.token = token, .sequence = id_, .position = static_cast<int64_t>(index - first_), .wants_logits = false};
  }

  [[nodiscard]] size_t in_flight() const { return in_flight_; }
  /// `n_rows` more rows were issued, and the cache holds their positions.
  void issued(size_t n_rows) { in_flight_ += n_rows; }
  /// The first `n_rows` of those in flight were computed.
  void collected(size_t n_rows) { in_flight_ -= n_rows; }
  /// Removes the rows in flight from the cache. Unless the sequence has ended, they are issued again.
  void recall() { recall(in_flight_); }
  /// Lets other prompts find the blocks that were computed.
  void remember() { cache_.remember(id_, tokens().first(std::min(n_computed() - first_, tokens().size()))); }
  /// Lets them find the last block of a sequence that ends, too.
  void remember_tail() {
    if (!runs()) return;
    remember();
    cache_.remember_tail(id_, tokens().first(static_cast<size_t>(cache_.length(id_))));
  }

 private:
  friend class Scheduler;

  [[nodiscard]] size_t n_held() const { return first_ + static_cast<size_t>(runs() ? cache_.length(id_) : 0); }
  void recall(size_t n_rows) {
    if (runs() && n_rows > 0) cache_.truncate(id_, cache_.length(id_) - static_cast<int64_t>(n_rows));
    in_flight_ = 0;
  }

  SequenceKey key_;
  std::span<const int32_t> prompt_;
  Needs needs_;
  BlockManager& cache_;
  SequenceId id_ = -1;
  int64_t n_cached_ = 0;
  std::vector<int32_t> history_;  ///< empty before its first token: sequences share the prompt
  size_t first_ = 0;
  size_t compute_from_ = SIZE_MAX;
  size_t n_optional_ = 0;
  size_t in_flight_ = 0;  ///< rows that the cache holds and that were not collected
};

}  // namespace folio::infer
