// The candidates for the next token, most likely first. They are sorted only as far as they are read: sampling needs a
// few hundred of a large vocabulary. Bounds of the sum of all weights are cheap; its exact value needs all sorted.
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
/// kForbidden where there is none.
[[nodiscard]] float largest_of(std::span<const float> values);

class Ranking {
 public:
  struct Candidate {
    int32_t id;
    float logit;
    double weight;  ///< exp((logit - largest) / temperature)
  };

  /// Ranks `logits` (vocab_size) that are not kForbidden; unless `top_k` is 0, only the `top_k` most likely. `largest`
  /// is the maximum of `logits`, which have to outlive the calls below.
  void reset(std::span<const float> logits, float largest, double temperature, size_t top_k);

  [[nodiscard]] size_t size() const { return size_; }

  /// The i-th most likely candidate, i < size(). Equal logits are in the order of their ids.
  [[nodiscard]] const Candidate& operator[](size_t i) {
    while (i >= n_sorted_) sort_next();
    return candidates_[i];
  }

  struct Bounds {
    double low;
    double high;
  };
  /// Bounds of total(), computed in one pass over the logits.
  [[nodiscard]] Bounds total_bounds() const;

  /// The sum of all weights, added from the most to the least likely. Sorts all candidates.
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
  float near_ = 0.0F;  ///< all logits from here on have been gathered
  size_t size_ = 0;
  size_t n_gathered_ = 0;
  size_t n_sorted_ = 0;
  std::vector<Candidate> candidates_;  ///< n_gathered_ in use, of which the first n_sorted_ are sorted
};

}  // namespace folio::infer
