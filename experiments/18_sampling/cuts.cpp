#include "experiments/18_sampling/cuts.h"

#include <algorithm>
#include <cmath>

namespace folio::experiments {

std::vector<Candidate> ranked(std::span<const float> logits, std::span<const int32_t> never) {
  std::vector<Candidate> all;
  for (size_t i = 0; i < logits.size(); ++i) {
    const auto token = static_cast<int32_t>(i);
    if (std::find(never.begin(), never.end(), token) == never.end()) all.push_back({token, logits[i]});
  }
  std::stable_sort(all.begin(), all.end(), [](const Candidate& a, const Candidate& b) { return a.p > b.p; });
  const double largest = all.front().p;
  double sum = 0.0;
  for (Candidate& c : all) sum += c.p = std::exp(c.p - largest);
  for (Candidate& c : all) c.p /= sum;
  return all;
}

size_t n_kept(std::span<const Candidate> model, const infer::SamplerOptions& options) {
  if (options.temperature == 0.0F) return 1;
  size_t n = model.size();
  if (options.top_k > 0) n = std::min(n, static_cast<size_t>(options.top_k));
  const double among = mass(model.first(n));
  if (options.top_p < 1.0F) {
    double sum = 0.0;
    size_t fewest = 0;
    while (fewest < n && sum < options.top_p) sum += model[fewest++].p / among;
    n = fewest;
  }
  while (model[n - 1].p < options.min_p * model[0].p) --n;
  return n;
}

std::vector<Candidate> drawn_from(std::span<const Candidate> model, const infer::SamplerOptions& options) {
  const auto kept = model.first(n_kept(model, options));
  if (kept.size() == 1) return {{kept[0].token, 1.0}};
  std::vector<Candidate> distribution(kept.begin(), kept.end());
  double sum = 0.0;
  for (Candidate& c : distribution) sum += c.p = std::pow(c.p / model[0].p, 1.0 / options.temperature);
  for (Candidate& c : distribution) c.p /= sum;
  return distribution;
}

int32_t token_at(std::span<const Candidate> distribution, double uniform) {
  for (const Candidate& c : distribution) {
    uniform -= c.p;
    if (uniform < 0.0) return c.token;
  }
  return distribution.back().token;
}

double mass(std::span<const Candidate> candidates) {
  double sum = 0.0;
  for (const Candidate& c : candidates) sum += c.p;
  return sum;
}

double entropy(std::span<const Candidate> distribution) {
  double sum = 0.0;
  for (const Candidate& c : distribution) sum -= c.p > 0.0 ? c.p * std::log(c.p) : 0.0;
  return sum;
}

}  // namespace folio::experiments
