// A custom sampling policy: after a given number of tokens, drops the less likely half of a request's sequences.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>

#include "infer/engine/policy.h"

namespace folio::experiments {

class Halving final : public infer::Policy {
 public:
  explicit Halving(size_t after) : after_(after) {}

  // Drops the less likely half of the sequences when they reach `after_` tokens. A sequence's score is its ln p.
  std::vector<infer::Continuation> decide(std::span<const infer::SequenceState> sequences) override {
    std::vector<infer::Continuation> next;
    for (const infer::SequenceState& s : sequences) {
      const double score = s.score + log_prob(s.logits, s.sampled);
      next.push_back({.from = next.size(), .token = s.sampled, .score = score});
    }
    if (sequences.front().generated.size() + 1 == after_) {
      std::ranges::stable_sort(next, std::ranges::greater{}, &infer::Continuation::score);
      next.resize((next.size() + 1) / 2);
    }
    return next;
  }

 private:
  static double log_prob(std::span<const float> logits, int32_t token) {
    const float largest = *std::ranges::max_element(logits);
    double total = 0.0;
    for (const float logit : logits) total += std::exp(double{logit} - largest);
    return logits[static_cast<size_t>(token)] - largest - std::log(total);
  }

  size_t after_;  ///< number of tokens after which sequences are dropped
};

}  // namespace folio::experiments
