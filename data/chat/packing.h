// Windows filled with whole conversations, each of which is a sequence of its own (Batch::starts). In an epoch each
// learned token is a target once, and what a batch holds is a pure function of the seed and its number.
#pragma once

#include <cstdint>
#include <vector>

#include "data/batches.h"
#include "data/chat/conversations.h"

namespace folio::data {

/// Which examples share a window is decided by best-fit decreasing: the longest first, each into the fullest window
/// that has room for it (Johnson 1973; windows are at most 11/9 of the fewest, and some). As inputs, an example has one
/// token less than it has: its last one is a target only.
class PackedExamples {
 public:
  /// Longer examples are cut at the end of the window. `padding` is the token that fills the rest of windows. Throws
  /// core::Error if there is nothing to learn.
  PackedExamples(std::vector<ChatExample> examples, int64_t length, int32_t padding);

  [[nodiscard]] int64_t n_windows() const { return static_cast<int64_t>(windows_.size()); }  ///< in an epoch
  [[nodiscard]] int64_t n_learned() const { return n_learned_; }                             ///< targets in an epoch
  [[nodiscard]] int64_t n_inputs() const { return n_inputs_; }                               ///< without padding
  [[nodiscard]] double fullness() const;                                                     ///< of windows, 0 to 1
  [[nodiscard]] int64_t n_cut() const { return n_cut_; }                                     ///< examples
  [[nodiscard]] int64_t n_lost() const { return n_lost_; }  ///< learned tokens that were cut off

  /// Batches without end, epoch after epoch, each with the windows in an order of its own and with other examples where
  /// some are of one length. Hold `this`.
  [[nodiscard]] BatchOf shuffled(int64_t rows, uint64_t seed) const;
  /// One epoch in order, some 4,096 tokens a batch. Holds `this`.
  [[nodiscard]] Batches in_order() const;

 private:
  struct Epoch {
    std::vector<size_t> windows;   ///< in the order of their turn
    std::vector<size_t> examples;  ///< of each rank
  };
  [[nodiscard]] Epoch epoch(uint64_t seed, uint64_t number) const;
  void append_window(Batch& batch, const std::vector<size_t>& ranks, const std::vector<size_t>& example_of_rank) const;

  std::vector<ChatExample> examples_;         ///< by falling length
  std::vector<std::vector<size_t>> windows_;  ///< of ranks in examples_
  int64_t length_;
  int32_t padding_;
  int64_t n_learned_ = 0;
  int64_t n_inputs_ = 0;
  int64_t n_cut_ = 0;
  int64_t n_lost_ = 0;
};

}  // namespace folio::data
