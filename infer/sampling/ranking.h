// The tokens that may be sampled, likeliest first, sorted only as far as they are looked at: a sample needs a few
// hundred of a large vocabulary. The sum of their weights is known between two bounds, and exactly once all are sorted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace folio::infer {

/// The logit of a token that may not be sampled.
inline constexpr float kForbidden = -std::numeric_limits<float>::infinity();

class Ranking {
 public:
  struct Candidate {
    int32_t id;
    float logit;
    double weight;  ///< exp((logit - largest) / temperature)
  };

  /// Ranks `logits` (vocab_size), whose maximum is `largest`, without those that are kForbidden; the `top_k` likeliest
  /// alone, unless that is 0. `logits` have to outlive the calls below.
  void reset(std::span<const float> logits, float largest, double temperature, size_t top_k);

  [[nodiscard]] size_t size() const { return size_; }

  /// The i-th likeliest, i < size(). Equal logits are in the order of their ids.
  [[nodiscard]] const Candidate& operator[](size_t i) {
    while (i >= n_sorted_) sort_next();
    return candidates_[i];
  }

  struct Bounds {
    double low;
    double high;
  };
  /// Where total() lies, at the price of one pass over the logits.
  [[nodiscard]] Bounds total_bounds() const;

  /// The sum of all weights, added from the likeliest to the least likely. Sorts all.
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
  float near_ = 0.0F;  ///< the logits from here on have been gathered
  size_t size_ = 0;
  size_t n_gathered_ = 0;
  size_t n_sorted_ = 0;
  std::vector<Candidate> candidates_;  ///< n_gathered_ of them, the likeliest n_sorted_ in order; the rest is room
};

}  // namespace folio::infer
