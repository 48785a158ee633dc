// Sliding: a sequence that fills the context keeps the last half of it, recomputes that and continues.
#pragma once

#include <cstddef>
#include <cstdint>

namespace folio::infer {

class Sliding {
 public:
  explicit Sliding(int64_t context) : context_(static_cast<size_t>(context)) {}

  /// Returns how many more tokens fit the context, of which the history from `first` on is a part.
  [[nodiscard]] size_t n_left(size_t n_history, size_t first) const { return context_ - (n_history - first); }
  /// Returns the first token of the history that stays.
  [[nodiscard]] size_t first_kept(size_t n_history) const { return n_history - context_ / 2; }

 private:
  size_t context_;
};

}  // namespace folio::infer
