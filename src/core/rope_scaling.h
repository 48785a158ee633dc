// RoPE's frequencies, and Llama 3's scaling of them for contexts longer than the original training context.
#pragma once

#include <vector>

#include "core/model_config.h"

namespace folio::core {

/// The divisor of the frequency of each of the pairs, half of the numbers of a head that are rotated; all are 1 without
/// scaling. With the wavelength w = 2 pi theta^(2i / rotated) and c the original context: `factor` where w > c / low, 1
/// where w < c / high, and between them 1 / ((1 - s) / factor + s) with s = (c / w - low) / (high - low). Source:
/// Llama 3.1's apply_scaling (github.com/meta-llama/llama-models); GGUF's tensor rope_freqs.weight.
[[nodiscard]] std::vector<double> rope_factors(const ModelConfig& config);

/// Linear scaling ("rope_type": "linear"), which divides all frequencies by `factor`: Llama 3's in a context of one
/// position, where no pair makes a whole turn.
[[nodiscard]] RopeScaling linear_scaling(float factor);
[[nodiscard]] bool is_linear(const RopeScaling& scaling);

/// The angle per position of each pair: theta^(-2i / rotated), divided by its factor.
[[nodiscard]] std::vector<double> rope_frequencies(const ModelConfig& config);

/// Of layers with a window, where they have a base of their own: local_rope_theta^(-2i / rotated).
[[nodiscard]] std::vector<double> local_rope_frequencies(const ModelConfig& config);

}  // namespace folio::core
