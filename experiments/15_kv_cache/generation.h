// Greedy text with and without a KV cache, and the work that each token took.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "core/weights.h"
#include "experiments/15_kv_cache/counting_kernels.h"
#include "infer/forward/runner.h"

namespace folio::experiments {

/// A model of random weights in memory: what is counted does not depend on them.
[[nodiscard]] core::StoredModel random_model(const core::ModelConfig& config, uint64_t seed);

struct Generation {
  std::vector<int32_t> tokens{0};
  std::vector<std::vector<float>> logits{};  ///< by token
  std::vector<Work> work{};                  ///< by token: all that was done from the first one up to it
};

/// Writes `count` tokens, each the likeliest, on a runner that counts: at most 256, as many rows as a step takes.
/// Without the cache, every token is computed from an empty one.
[[nodiscard]] Generation generate(infer::Runner& runner, size_t count, bool with_cache);

/// The logits of the tokens of a random text, at most 256, computed one token after the other.
[[nodiscard]] std::vector<float> logits_of_random_text(infer::Runner& runner, size_t count, uint64_t seed);

/// |a - b| / |b|.
[[nodiscard]] double relative_distance(std::span<const float> a, std::span<const float> b);

/// The slope of ln count against ln n, from n = 32 on, by least squares: count ~ n^slope.
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
