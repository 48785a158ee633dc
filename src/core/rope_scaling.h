// RoPE's frequencies, and their scaling for contexts longer than the original one.
#pragma once

#include <vector>

#include "core/model_config.h"

namespace folio::core {

/// Returns the divisor of each pair's frequency (rotated / 2 values; 1 without scaling). With the wavelength
/// w = 2 pi theta^(2i / rotated) of pair i and the original context c:
/// Llama3: factor if w > c / low, 1 if w < c / high, else 1 / ((1 - s) / factor + s), s = (c / w - low) / (high - low),
/// where low and high are low_freq_factor and high_freq_factor.
/// Linear: factor. LongRope: the long factors if the model's context exceeds c, otherwise the short ones.
/// Yarn: 1 / (r / factor + 1 - r), with r = (i - p) / (q - p) clamped to [0, 1]. p and q are the pairs that complete
/// beta_fast and beta_slow full rotations in c positions, rounded outward if whole_pairs is set.
/// Sources: Llama 3.1's apply_scaling (github.com/meta-llama/llama-models); Peng et al., "YaRN", 2023, section 3.2;
/// Ding et al., "LongRoPE", 2024; GGUF's rope_freqs.weight, rope_factors_long.weight and rope_factors_short.weight.
[[nodiscard]] std::vector<double> rope_factors(const ModelConfig& config);

/// Returns each pair's angle per position: theta^(-2i / rotated), divided by its rope_factors().
[[nodiscard]] std::vector<double> rope_frequencies(const ModelConfig& config);

/// Returns the factor by which rotated queries and keys are multiplied: 1 except for Yarn and LongRope. Attention
/// scores are thus multiplied by its square.
[[nodiscard]] float rope_magnitude(const ModelConfig& config);
/// Return the default rope_magnitude() of Yarn, 0.1 mscale ln(factor) + 1 (YaRN, section 3.4), and of LongRope,
/// sqrt(1 + ln(factor) / ln(original context)).
[[nodiscard]] float yarn_magnitude(float factor, float mscale = 1.0F);
[[nodiscard]] float longrope_magnitude(float factor, int64_t original_context);

/// Returns ModelConfig::attention_scale of latent attention with Yarn: yarn_magnitude(factor, mscale)² /
/// sqrt(head_dim), or 0, the default, if that equals 1 / sqrt(head_dim). Source: transformers' yarn_apply_mscale(). The
/// inverse, latent_mscale(), returns the mscale with the fewest digits that results in config.attention_scale.
[[nodiscard]] float latent_score_scale(const ModelConfig& config, double mscale);
[[nodiscard]] double latent_mscale(const ModelConfig& config);

/// Returns the RoPE frequencies of layers with a sliding window: local_rope_theta^(-2i / rotated) for pair i.
[[nodiscard]] std::vector<double> local_rope_frequencies(const ModelConfig& config);

}  // namespace folio::core
