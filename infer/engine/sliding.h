// Sliding context: a sequence that fills the context keeps its last half, recomputes it and continues.
#pragma once

#include <cstddef>
#include <cstdint>

namespace folio::infer {

class Sliding {
 public:
  explicit Sliding(int64_t context) : context_(static_cast<size_t>(context)) {}

  /// Returns the number of free positions in a context that contains the history from index `first` on.
  [[nodiscard]] size_t n_left(size_t n_history, size_t first) const { return context_ - (n_history - first); }
  /// Returns the index of the first history token that stays in the context.
  [[nodiscard]] size_t first_kept(size_t n_history) const { return n_history - context_ / 2; }

 private:
  size_t context_;
};

}  // namespace folio::infer
