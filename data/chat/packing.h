// Packs whole conversations, each a separate sequence (Batch::starts), into windows. Each learned token is a target
// once per epoch. A batch is a pure function of the seed and its number.
#pragma once

#include <cstdint>
#include <vector>

#include "data/batches.h"
#include "data/chat/conversations.h"

namespace folio::data {

/// Packs examples by best-fit decreasing: the longest first, each into the fullest window that can hold it (Johnson
/// 1973; at most about 11/9 of the minimum number of windows). An example occupies one input fewer than its number of
/// tokens, since its last token is only a target.
class PackedExamples {
 public:
  /// Truncates examples to `length` inputs, the length of a window, and pads windows with the token `padding`. Throws
  /// core::Error if no learned token remains.
  PackedExamples(std::vector<ChatExample> examples, int64_t length, int32_t padding);

  [[nodiscard]] int64_t n_windows() const { return static_cast<int64_t>(windows_.size()); }  ///< windows per epoch
  [[nodiscard]] int64_t n_learned() const { return n_learned_; }                             ///< targets in the loss
  [[nodiscard]] int64_t n_inputs() const { return n_inputs_; }                               ///< inputs without padding
  [[nodiscard]] double fullness() const;                                                     ///< non-padding fraction
  [[nodiscard]] int64_t n_cut() const { return n_cut_; }                                     ///< truncated examples
  [[nodiscard]] int64_t n_lost() const { return n_lost_; }  ///< number of learned tokens that truncation removed

  /// Returns endless batches of `rows` windows. Each epoch shuffles the windows, and the examples of equal length.
  /// The result must not outlive this object.
  [[nodiscard]] BatchOf shuffled(int64_t rows, uint64_t seed) const;
  /// Returns one epoch without shuffling, at most 4,096 tokens (but at least one window) per batch. The result must not
  /// outlive this object.
  [[nodiscard]] Batches in_order() const;

 private:
  struct Epoch {
    std::vector<size_t> windows;   ///< indices into windows_, shuffled
    std::vector<size_t> examples;  ///< example i is replaced by example examples[i], which has the same length
  };
  [[nodiscard]] Epoch epoch(uint64_t seed, uint64_t number) const;
  void append_window(Batch& batch, const std::vector<size_t>& ranks, const std::vector<size_t>& example_of_rank) const;

  std::vector<ChatExample> examples_;         ///< sorted by length, descending
  std::vector<std::vector<size_t>> windows_;  ///< for each window, the indices of its examples in examples_
  int64_t length_;
  int32_t padding_;
  int64_t n_learned_ = 0;
  int64_t n_inputs_ = 0;
  int64_t n_cut_ = 0;
  int64_t n_lost_ = 0;
};

}  // namespace folio::data
