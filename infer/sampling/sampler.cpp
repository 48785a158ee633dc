#include "infer/sampling/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error.h"
#include "core/random.h"

namespace folio::infer {
namespace {

constexpr float kForbidden = -std::numeric_limits<float>::infinity();

}  // namespace

Sampler::Sampler(const SamplerOptions& options, std::vector<int32_t> never)
    : options_(options), never_(std::move(never)) {
  using core::require;
  // Written so that a NaN fails.
  require(options.temperature >= 0.0F && options.temperature <= 100.0F, "temperature is {}, but has to be in [0, 100]",
          options.temperature);
  require(options.top_k >= 0, "top-k is {}, but has to be 0 (off) or more", options.top_k);
  require(options.top_p > 0.0F && options.top_p <= 1.0F, "top-p is {}, but has to be in (0, 1]", options.top_p);
  require(options.min_p >= 0.0F && options.min_p <= 1.0F, "min-p is {}, but has to be in [0, 1]", options.min_p);
  require(options.repeat_penalty > 0.0F && options.repeat_penalty <= 100.0F,
          "repeat-penalty is {}, but has to be in (0, 100]", options.repeat_penalty);
  require(options.repeat_last_n >= 0, "repeat-last-n is {}, but has to be 0 (none) or more", options.repeat_last_n);
}

int32_t Sampler::sample(std::span<float> logits, std::span<const int32_t> history, int64_t position) {
  for (const float logit : logits) {
    core::require(std::isfinite(logit), "the model's output is not finite at position {}; its weights are damaged",
                  position);
  }
  penalize(logits, history);
  for (const int32_t id : never_) logits[static_cast<size_t>(id)] = kForbidden;
  if (options_.temperature == 0.0F) {
    const auto best = std::max_element(logits.begin(), logits.end());  // the lowest id of equals
    core::require(*best != kForbidden, "no token of the vocabulary may be drawn");
    return static_cast<int32_t>(best - logits.begin());
  }
  candidates_.clear();
  for (size_t id = 0; id < logits.size(); ++id) {
    if (logits[id] != kForbidden) candidates_.push_back({static_cast<int32_t>(id), logits[id], 0.0});
  }
  core::require(!candidates_.empty(), "no token of the vocabulary may be drawn");
  keep_top_k();
  normalize(1.0);
  keep_top_p();
  keep_min_p();
  normalize(options_.temperature);
  double left = core::random_uniform(options_.seed, static_cast<uint64_t>(position));
  for (const Candidate& c : candidates_) {
    left -= c.probability;
    if (left < 0.0) return c.id;
  }
  return candidates_.back().id;  // rounding left a little over
}

void Sampler::penalize(std::span<float> logits, std::span<const int32_t> history) const {
  if (options_.repeat_penalty == 1.0F) return;
  const auto n = std::min(history.size(), static_cast<size_t>(options_.repeat_last_n));
  std::vector<int32_t> recent(history.end() - static_cast<std::ptrdiff_t>(n), history.end());
  std::sort(recent.begin(), recent.end());
  recent.erase(std::unique(recent.begin(), recent.end()), recent.end());
  for (const int32_t id : recent) {
    float& logit = logits[static_cast<size_t>(id)];
    logit = logit > 0.0F ? logit / options_.repeat_penalty : logit * options_.repeat_penalty;
  }
}

void Sampler::keep_top_k() {
  const auto likelier = [](const Candidate& a, const Candidate& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
  };
  const auto k = static_cast<size_t>(options_.top_k);
  if (k == 0 || k >= candidates_.size()) {
    std::sort(candidates_.begin(), candidates_.end(), likelier);
    return;
  }
  std::partial_sort(candidates_.begin(), candidates_.begin() + static_cast<std::ptrdiff_t>(k), candidates_.end(),
                    likelier);
  candidates_.resize(k);
}

void Sampler::normalize(double temperature) {
  const double largest = candidates_.front().logit;
  double sum = 0.0;
  for (Candidate& c : candidates_) sum += c.probability = std::exp((c.logit - largest) / temperature);
  for (Candidate& c : candidates_) c.probability /= sum;
}

void Sampler::keep_top_p() {
  if (options_.top_p >= 1.0F) return;
  double sum = 0.0;
  size_t keep = 0;
  while (keep < candidates_.size() && sum < options_.top_p) sum += candidates_[keep++].probability;
  candidates_.resize(keep);
}

void Sampler::keep_min_p() {
  const double least = options_.min_p * candidates_.front().probability;
  std::erase_if(candidates_, [&](const Candidate& c) { return c.probability < least; });
}

}  // namespace folio::infer
