// One sequence of a request: its tokens, its KV blocks, and its rows in flight.
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <span>
#include <vector>

#include "infer/cache/block_manager.h"
#include "infer/forward/runner.h"

namespace folio::infer {

/// A request's id. Ids increase in order of arrival.
using RequestId = int64_t;

/// Identifies a sequence by its request and its index in that request.
struct SequenceKey {
  RequestId request;
  size_t index;

  [[nodiscard]] auto operator<=>(const SequenceKey&) const = default;
};

class Sequence {
 public:
  /// Requirements that the scheduler must know before the sequence starts.
  struct Needs {
    int64_t max_positions;         ///< maximum number of positions in the KV cache
    size_t n_together = 1;         ///< number of the request's sequences that start and are preempted together
    int32_t adapter = kNoAdapter;  ///< id of the sequence's adapter, which affects its keys and values
    bool alone = false;            ///< true: its steps have no rows of other sequences
  };

  /// Creates a waiting sequence. `cache` and the tokens of `prompt` must outlive it.
  Sequence(SequenceKey key, std::span<const int32_t> prompt, const Needs& needs, BlockManager& cache)
      : key_(key), prompt_(prompt), needs_(needs), cache_(cache) {}
  Sequence(const Sequence&) = delete;
  Sequence& operator=(const Sequence&) = delete;

  [[nodiscard]] SequenceKey key() const { return key_; }
  [[nodiscard]] RequestId request() const { return key_.request; }
  [[nodiscard]] size_t index() const { return key_.index; }
  [[nodiscard]] const Needs& needs() const { return needs_; }
  [[nodiscard]] bool runs() const { return id_ >= 0; }
  /// Returns the sequence's id in the KV cache; negative if the sequence is not running.
  [[nodiscard]] SequenceId id() const { return id_; }
  /// Returns the number of tokens found in the KV cache when the sequence last started.
  [[nodiscard]] int64_t n_cached() const { return n_cached_; }

  /// Returns the prompt and all generated tokens.
  [[nodiscard]] std::span<const int32_t> history() const {
    return history_.empty() ? prompt_ : std::span<const int32_t>(history_);
  }
  [[nodiscard]] std::span<const int32_t> generated() const { return history().subspan(prompt_.size()); }
  /// Returns the history without tokens that slid out of the context. Index 0 is position 0 in the KV cache.
  [[nodiscard]] std::span<const int32_t> tokens() const { return history().subspan(first_); }
  [[nodiscard]] size_t first() const { return first_; }
  void append(int32_t token) {
    if (history_.empty()) history_.assign(prompt_.begin(), prompt_.end());
    history_.push_back(token);
  }
  /// Removes the history before index `first` from the context. The remaining tokens will be recomputed.
  void slide_to(size_t first) {
    recall(static_cast<size_t>(runs() ? cache_.length(id_) : 0));
    first_ = first;
  }

  /// Returns the maximum number of leading tokens() to take from the prefix cache. The last token is always
  /// computed, since its row gives the logits.
  [[nodiscard]] size_t shareable() const { return std::min(tokens().empty() ? 0 : tokens().size() - 1, compute_from_); }
  /// Makes the sequence compute tokens from `index` on even if they are cached.
  void compute_from(size_t index) { compute_from_ = index; }
  /// Returns the maximum number of draft rows of the sequence in the next step. The scheduler may plan fewer.
  [[nodiscard]] size_t n_optional() const { return n_optional_; }
  void set_optional(size_t n_rows) { n_optional_ = n_rows; }

  /// Returns the number of history tokens before the first one that is in flight or must still be computed.
  [[nodiscard]] size_t n_computed() const { return n_held() - in_flight_; }
  /// Returns the number of history tokens whose rows must still be issued.
  [[nodiscard]] size_t n_missing() const { return history().size() - std::min(n_held(), history().size()); }
  /// Returns a row for `token` at history index `index`. `token` may be a drawn_token(), the placeholder for a token
  /// that the host has not read yet.
  [[nodiscard]] Row row(size_t index, int32_t token) const {
    return {.token = token, .sequence = id_, .position = static_cast<int64_t>(index - first_), .wants_logits = false};
  }

  [[nodiscard]] size_t in_flight() const { return in_flight_; }
  /// Records that `n_rows` more rows were issued. Their positions are already reserved in the KV cache.
  void issued(size_t n_rows) { in_flight_ += n_rows; }
  /// Records that the first `n_rows` of the rows in flight were computed.
  void collected(size_t n_rows) { in_flight_ -= n_rows; }
  /// Removes the rows in flight from the KV cache. They are issued again if the sequence continues.
  void recall() { recall(in_flight_); }
  /// Adds the sequence's computed full blocks to the prefix cache.
  void remember() { cache_.remember(id_, tokens().first(std::min(n_computed() - first_, tokens().size()))); }
  /// Adds the sequence's full blocks and its partial last block to the prefix cache. Called when the sequence ends.
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
  std::vector<int32_t> history_;  ///< empty until the first generated token, so that sequences share the prompt
  size_t first_ = 0;
  size_t compute_from_ = SIZE_MAX;
  size_t n_optional_ = 0;
  size_t in_flight_ = 0;  ///< number of rows issued whose results are not collected yet
};

}  // namespace folio::infer
