// The frequencies of RoPE, and how Llama 3 stretches them for contexts longer than those it was first trained on.
#pragma once

#include <vector>

#include "core/model_config.h"

namespace folio::core {

/// What pair i's frequency is divided by, for each of the head_dim / 2 pairs; all 1 where nothing is stretched.
/// With the wavelength w = 2 pi theta^(2i / head_dim) and c the original context: `factor` where w > c / low, 1 where
/// w < c / high, and between them 1 / ((1 - s) / factor + s) with s = (c / w - low) / (high - low).
/// Source: Llama 3.1's apply_scaling (github.com/meta-llama/llama-models); GGUF's tensor rope_freqs.weight.
[[nodiscard]] std::vector<double> rope_factors(const ModelConfig& config);

/// The angle of one position for each pair: theta^(-2i / head_dim), divided by its factor.
[[nodiscard]] std::vector<double> rope_frequencies(const ModelConfig& config);

}  // namespace folio::core
