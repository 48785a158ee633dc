// The candidates for the next token, most likely first. They are sorted only as far as they are read: sampling reads a
// few hundred of a large vocabulary. Bounds of the sum of all weights need no sorting; the exact sum needs a full sort.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace folio::infer {

/// The logit of a token that may not be sampled.
inline constexpr float kForbidden = -std::numeric_limits<float>::infinity();

[[nodiscard]] bool all_finite(std::span<const float> values);
/// Returns the largest value, or kForbidden if there are no values.
[[nodiscard]] float largest_of(std::span<const float> values);

class Ranking {
 public:
  struct Candidate {
    int32_t id;
    float logit;
    double weight;  ///< exp((logit - largest) / temperature)
  };

  /// Starts a ranking of the `top_k` largest of `logits` (vocab_size), or of all if `top_k` is 0, without those that
  /// are kForbidden. `largest` must be their maximum. Weights are exp((logit - largest) / temperature). `logits` must
  /// stay valid until the next reset().
  void reset(std::span<const float> logits, float largest, double temperature, size_t top_k);

  [[nodiscard]] size_t size() const { return size_; }

  /// Returns the i-th most likely candidate, i < size(). Candidates with equal logits are in the order of their ids.
  [[nodiscard]] const Candidate& operator[](size_t i) {
    while (i >= n_sorted_) sort_next();
    return candidates_[i];
  }

  struct Bounds {
    double low;
    double high;
  };
  /// Returns bounds of total(), computed in one pass over the logits.
  [[nodiscard]] Bounds total_bounds() const;

  /// Returns the sum of all weights, added from the most to the least likely. Sorts all candidates.
  [[nodiscard]] double total();

 private:
  [[nodiscard]] std::vector<Candidate>::iterator at(size_t i) {
    return candidates_.begin() + static_cast<std::ptrdiff_t>(i);
  }
  void gather(float from, float to);
  void gather_rest();
  void sort_next();

  std::span<const float> logits_;
  float largest_ = 0.0F;
  double temperature_ = 1.0;
  float near_ = 0.0F;  ///< all logits of at least this value are in candidates_
  size_t size_ = 0;
  size_t n_gathered_ = 0;
  size_t n_sorted_ = 0;
  std::vector<Candidate> candidates_;  ///< the first n_gathered_ are in use, the first n_sorted_ are sorted
};

}  // namespace folio::infer
