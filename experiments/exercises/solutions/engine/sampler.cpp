#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "experiments/exercises/engine/kernels.h"

namespace folio::exercises {
namespace {

// Returns the softmax of logits / temperature over `tokens`, which are sorted by logit, largest first.
std::vector<double> softmax(std::span<const float> logits, const std::vector<int32_t>& tokens, double temperature) {
  const double largest = logits[static_cast<size_t>(tokens[0])];
  std::vector<double> share;
  for (const int32_t t : tokens) share.push_back(std::exp((logits[static_cast<size_t>(t)] - largest) / temperature));
  const double sum = std::accumulate(share.begin(), share.end(), 0.0);
  for (double& s : share) s /= sum;
  return share;
}

}  // namespace

int32_t sample(std::span<const float> logits, const SamplerOptions& options, double uniform) {
  std::vector<int32_t> tokens;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (std::isfinite(logits[i])) tokens.push_back(static_cast<int32_t>(i));
  }
  std::stable_sort(tokens.begin(), tokens.end(), [&](int32_t a, int32_t b) {
    return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)];
  });
  if (options.temperature == 0.0F) return tokens[0];

  if (options.top_k > 0) tokens.resize(std::min(tokens.size(), options.top_k));

  std::vector<double> share = softmax(logits, tokens, 1.0);
  size_t n_kept = 0;
  double together = 0.0;
  while (n_kept < tokens.size() && (together < options.top_p || options.top_p == 1.0F)) together += share[n_kept++];
  while (share[n_kept - 1] < options.min_p * share[0]) --n_kept;
  tokens.resize(n_kept);

  share = softmax(logits, tokens, options.temperature);
  for (size_t i = 0; i < tokens.size(); ++i) {
    uniform -= share[i];
    if (uniform < 0.0) return tokens[i];
  }
  return tokens.back();  // rounding may leave the sum slightly below 1
}

}  // namespace folio::exercises
