// RoPE's frequencies, and Llama 3's scaling of them for contexts longer than the original training context.
#pragma once

#include <vector>

#include "core/model_config.h"

namespace folio::core {

/// The divisor of the frequency of each of the head_dim / 2 pairs; all are 1 without scaling.
/// With the wavelength w = 2 pi theta^(2i / head_dim) and c the original context: `factor` where w > c / low, 1 where
/// w < c / high, and between them 1 / ((1 - s) / factor + s) with s = (c / w - low) / (high - low).
/// Source: Llama 3.1's apply_scaling (github.com/meta-llama/llama-models); GGUF's tensor rope_freqs.weight.
[[nodiscard]] std::vector<double> rope_factors(const ModelConfig& config);

/// The angle per position of each pair: theta^(-2i / head_dim), divided by its factor.
[[nodiscard]] std::vector<double> rope_frequencies(const ModelConfig& config);

}  // namespace folio::core
