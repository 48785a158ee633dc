#include "core/rope_scaling.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

namespace folio::core {
namespace {

double plain_frequency(const ModelConfig& config, float theta, size_t pair) {
  const double exponent = -2.0 * static_cast<double>(pair) / static_cast<double>(config.rotated());
  return std::pow(static_cast<double>(theta), exponent);
}

// Divides each pair's plain frequency by its element of `factors`.
std::vector<double> divided_frequencies(const ModelConfig& config, float theta, std::vector<double> factors) {
  for (size_t i = 0; i < factors.size(); ++i) factors[i] = plain_frequency(config, theta, i) / factors[i];
  return factors;
}

// Returns how many full rotations a pair completes in the original context.
double turns(const ModelConfig& config, size_t pair) {
  return static_cast<double>(config.rope_scaling.original_context) * plain_frequency(config, config.rope_theta, pair) /
         (2.0 * std::numbers::pi);
}

double llama3_factor(const ModelConfig& config, size_t pair) {
  const RopeScaling& s = config.rope_scaling;
  const double low = s.low_freq_factor;
  const double high = s.high_freq_factor;
  const double n = turns(config, pair);
  if (n < low) return s.factor;
  if (n > high) return 1.0;
  const double smooth = (n - low) / (high - low);
  return 1.0 / ((1.0 - smooth) / static_cast<double>(s.factor) + smooth);
}

// Returns the index, not rounded, of the pair that completes n full rotations in the original context.
double pair_with_turns(const ModelConfig& config, double n) {
  const auto context = static_cast<double>(config.rope_scaling.original_context);
  return static_cast<double>(config.rotated()) * std::log(context / (n * 2.0 * std::numbers::pi)) /
         (2.0 * std::log(static_cast<double>(config.rope_theta)));
}

double yarn_factor(const ModelConfig& config, size_t pair) {
  const RopeScaling& s = config.rope_scaling;
  double first = pair_with_turns(config, s.high_freq_factor);
  double last = pair_with_turns(config, s.low_freq_factor);
  if (s.whole_pairs) {
    first = std::floor(first);
    last = std::ceil(last);
  }
  first = std::max(first, 0.0);
  last = std::min(last, static_cast<double>(config.rotated() - 1));
  if (first == last) last += 0.001;
  const double scaled = std::clamp((static_cast<double>(pair) - first) / (last - first), 0.0, 1.0);
  return 1.0 / (scaled / static_cast<double>(s.factor) + 1.0 - scaled);
}

}  // namespace

std::vector<double> rope_factors(const ModelConfig& config) {
  const RopeScaling& s = config.rope_scaling;
  std::vector<double> factors(static_cast<size_t>(config.rotated() / 2), 1.0);
  if (!s.active()) return factors;
  const auto& given = config.context_length > s.original_context ? s.long_factors : s.short_factors;
  for (size_t i = 0; i < factors.size(); ++i) {
    if (s.type == RopeScalingType::Llama3) factors[i] = llama3_factor(config, i);
    if (s.type == RopeScalingType::Linear) factors[i] = s.factor;
    if (s.type == RopeScalingType::Yarn) factors[i] = yarn_factor(config, i);
    if (s.type == RopeScalingType::LongRope) factors[i] = given.at(i);
  }
  return factors;
}

float rope_magnitude(const ModelConfig& config) {
  return config.rope_scaling.active() ? config.rope_scaling.magnitude : 1.0F;
}

float yarn_magnitude(float factor, float mscale) {
  return factor <= 1.0F ? 1.0F : 0.1F * mscale * std::log(factor) + 1.0F;
}

float latent_score_scale(const ModelConfig& config, double mscale) {
  const double magnitude = 1.0 + 0.1 * mscale * std::log(static_cast<double>(config.rope_scaling.factor));
  const double usual = 1.0 / std::sqrt(static_cast<double>(config.head_dim));
  const auto scale = static_cast<float>(magnitude * magnitude * usual);
  return scale == static_cast<float>(usual) ? 0.0F : scale;
}

double latent_mscale(const ModelConfig& config) {
  if (config.attention_scale == 0.0F) return 0.0;
  const double square = static_cast<double>(config.attention_scale) * std::sqrt(static_cast<double>(config.head_dim));
  const double mscale = (std::sqrt(square) - 1.0) / (0.1 * std::log(static_cast<double>(config.rope_scaling.factor)));
  for (int digits = 1; digits < 17; ++digits) {
    const double rounded = std::stod(fmt::format("{:.{}g}", mscale, digits));
    if (latent_score_scale(config, rounded) == config.attention_scale) return rounded;
  }
  return mscale;
}

float longrope_magnitude(float factor, int64_t original_context) {
  return factor <= 1.0F ? 1.0F : std::sqrt(1.0F + std::log(factor) / std::log(static_cast<float>(original_context)));
}

std::vector<double> rope_frequencies(const ModelConfig& config) {
  return divided_frequencies(config, config.rope_theta, rope_factors(config));
}

std::vector<double> local_rope_frequencies(const ModelConfig& config) {
  const std::vector<double> ones(static_cast<size_t>(config.rotated() / 2), 1.0);
  return divided_frequencies(config, config.local_rope_theta, ones);
}

}  // namespace folio::core
