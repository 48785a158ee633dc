#include "core/rope_scaling.h"

#include <cmath>
#include <numbers>

namespace folio::core {
namespace {

double plain_frequency(const ModelConfig& config, float theta, size_t pair) {
  const double exponent = -2.0 * static_cast<double>(pair) / static_cast<double>(config.rotated());
  return std::pow(static_cast<double>(theta), exponent);
}

}  // namespace

std::vector<double> rope_factors(const ModelConfig& config) {
  const RopeScaling& s = config.rope_scaling;
  std::vector<double> factors(static_cast<size_t>(config.rotated() / 2), 1.0);
  if (!s.active()) return factors;
  const double low = s.low_freq_factor;
  const double high = s.high_freq_factor;
  for (size_t i = 0; i < factors.size(); ++i) {
    // The number of turns of the pair in the original context.
    const double turns = static_cast<double>(s.original_context) * plain_frequency(config, config.rope_theta, i) /
                         (2.0 * std::numbers::pi);
    if (turns < low) {
      factors[i] = s.factor;
    } else if (turns <= high) {
      const double smooth = (turns - low) / (high - low);
      factors[i] = 1.0 / ((1.0 - smooth) / static_cast<double>(s.factor) + smooth);
    }
  }
  return factors;
}

RopeScaling linear_scaling(float factor) {
  return {.factor = factor, .low_freq_factor = 1.0F, .high_freq_factor = 4.0F, .original_context = 1};
}

bool is_linear(const RopeScaling& scaling) { return scaling.active() && scaling == linear_scaling(scaling.factor); }

std::vector<double> rope_frequencies(const ModelConfig& config) {
  std::vector<double> frequencies = rope_factors(config);
  for (size_t i = 0; i < frequencies.size(); ++i) {
    frequencies[i] = plain_frequency(config, config.rope_theta, i) / frequencies[i];
  }
  return frequencies;
}

std::vector<double> local_rope_frequencies(const ModelConfig& config) {
  std::vector<double> frequencies(static_cast<size_t>(config.rotated() / 2));
  for (size_t i = 0; i < frequencies.size(); ++i) {
    frequencies[i] = plain_frequency(config, config.local_rope_theta, i);
  }
  return frequencies;
}

}  // namespace folio::core
