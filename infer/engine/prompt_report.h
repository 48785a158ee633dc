// Reports the logits of a prompt's rows, or the log-probabilities of its tokens, while the rows are computed.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/error.h"

namespace folio::infer {

/// Returns -ln softmax(logits)[target], in nats; the exponentials are summed in double precision.
[[nodiscard]] inline double negative_log_likelihood(std::span<const float> logits, int32_t target) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double total = 0.0;
  for (const float logit : logits) total += std::exp(logit - largest);
  return std::log(total) - (logits[static_cast<size_t>(target)] - largest);
}

class PromptReport {
 public:
  using OnLogits = std::function<void(std::span<const float> logits)>;
  using OnLogProbs = std::function<void(std::span<const double> log_probs)>;

  /// Creates a report for one prompt. All arguments must outlive this object. One of the callbacks may be empty.
  PromptReport(std::span<const int32_t> prompt, size_t vocab_size, const OnLogits& on_logits,
               const OnLogProbs& on_log_probs)
      : prompt_(prompt), vocab_size_(vocab_size), on_logits_(on_logits), on_log_probs_(on_log_probs) {}

  /// Returns the number of rows to report. The last token's row has logits but no log-probability.
  [[nodiscard]] size_t n_rows() const { return prompt_.size() - (on_logits_ ? 0 : 1); }
  [[nodiscard]] size_t n_reported() const { return n_reported_; }
  /// Returns the number of prompt rows in [first, end) that must still be reported.
  [[nodiscard]] size_t n_wanted(size_t first, size_t end) const {
    first = std::max(first, n_reported_);
    return std::min(end, n_rows()) - std::min({first, end, n_rows()});
  }
  /// Reports computed rows from prompt index `first` on. `logits`, (rows, vocab_size), has only the rows that were not
  /// reported before. Throws core::Error, and reports none, if a log-probability is not finite.
  void report(std::span<const float> logits, size_t first) {
    first = std::max(first, n_reported_);
    const size_t end = first + logits.size() / vocab_size_;
    std::vector<double> log_probs;
    for (size_t i = first; on_log_probs_ && i < std::min(end, prompt_.size() - 1); ++i) {
      const auto row = logits.subspan((i - first) * vocab_size_, vocab_size_);
      log_probs.push_back(-negative_log_likelihood(row, prompt_[i + 1]));
      core::require(std::isfinite(log_probs.back()),
                    "the logits at position {} are not finite; the model's weights are corrupt", i);
    }
    n_reported_ = end;
    if (on_logits_) on_logits_(logits);
    if (!log_probs.empty()) on_log_probs_(log_probs);
  }

 private:
  std::span<const int32_t> prompt_;
  size_t vocab_size_;
  const OnLogits& on_logits_;
  const OnLogProbs& on_log_probs_;
  size_t n_reported_ = 0;  ///< number of prompt rows reported so far, from the first one on
};

}  // namespace folio::infer
