// RoPE's frequencies, and how they are scaled for contexts longer than the original training context.
#pragma once

#include <vector>

#include "core/model_config.h"

namespace folio::core {

/// The divisor of the frequency of each of the pairs, half of the numbers of a head that are rotated; all are 1 without
/// scaling. Llama3: with the wavelength w = 2 pi theta^(2i / rotated) and c the original context, `factor` where
/// w > c / low, 1 where w < c / high, and between them 1 / ((1 - s) / factor + s) with s = (c / w - low) / (high -
/// low). Linear: `factor`. Yarn: with the pairs p and q that have beta_fast and beta_slow turns in the original
/// context, and r(i) = (i - p) / (q - p), cut to [0, 1]: 1 / (r / factor + 1 - r). LongRope: the long factors where the
/// model's context is longer than the original one, else the short ones. Sources: Llama 3.1's apply_scaling
/// (github.com/meta-llama/llama-models); Peng et al., "YaRN", 2023, section 3.2; Ding et al., "LongRoPE", 2024; GGUF's
/// tensors rope_freqs.weight, rope_factors_long.weight and rope_factors_short.weight.
[[nodiscard]] std::vector<double> rope_factors(const ModelConfig& config);

/// The angle per position of each pair: theta^(-2i / rotated), divided by its factor.
[[nodiscard]] std::vector<double> rope_frequencies(const ModelConfig& config);

/// The factor of rotated numbers, so of a score its square: 1 but for Yarn and LongRope.
[[nodiscard]] float rope_magnitude(const ModelConfig& config);
/// What it is where a file doesn't say it: 0.1 mscale ln(factor) + 1 (YaRN, section 3.4), and
/// sqrt(1 + ln(factor) / ln(original context)) (LongRoPE).
[[nodiscard]] float yarn_magnitude(float factor, float mscale = 1.0F);
[[nodiscard]] float longrope_magnitude(float factor, int64_t original_context);

/// Of layers with a window, where they have a base of their own: local_rope_theta^(-2i / rotated).
[[nodiscard]] std::vector<double> local_rope_frequencies(const ModelConfig& config);

}  // namespace folio::core
