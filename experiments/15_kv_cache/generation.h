// Greedy generation with and without a KV cache, and the work per token.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "experiments/15_kv_cache/counting_kernels.h"
#include "infer/forward/runner.h"

namespace folio::experiments {

struct Generation {
  std::vector<int32_t> tokens{0};
  std::vector<std::vector<float>> logits{};  ///< (count, vocab_size): tokens[i + 1] is the argmax of logits[i]
  std::vector<Work> work{};                  ///< work[i]: total work of generating the tokens up to tokens[i + 1]
};

/// Generates `count` <= 256 tokens greedily (a forward pass has at most 256 rows) on a runner with counting kernels.
/// Without the cache, every token recomputes all previous positions.
[[nodiscard]] Generation generate(infer::Runner& runner, size_t count, bool with_cache);

/// Returns the logits after each of `count` <= 256 random tokens, (count, vocab_size), computed one token at a time.
[[nodiscard]] std::vector<float> logits_of_random_tokens(infer::Runner& runner, size_t count, uint64_t seed);

/// Returns ‖a - b‖ / ‖b‖.
[[nodiscard]] double relative_distance(std::span<const float> a, std::span<const float> b);

/// Returns the exponent s of count ~ n^s: the least-squares slope of ln count against ln n for n >= 32 tokens.
template <typename Count>
[[nodiscard]] double slope(const Generation& g, Count count) {
  double n = 0.0, sx = 0.0, sy = 0.0, sxx = 0.0, sxy = 0.0;
  for (double tokens = 32.0; tokens < static_cast<double>(g.work.size()) + 0.5; tokens *= std::sqrt(2.0), ++n) {
    const auto at = static_cast<size_t>(std::lround(tokens));
    const double x = std::log(static_cast<double>(at));
    const double y = std::log(static_cast<double>(count(g.work[at - 1])));
    sx += x, sy += y, sxx += x * x, sxy += x * y;
  }
  return (n * sxy - sx * sy) / (n * sxx - sx * sx);
}

}  // namespace folio::experiments
