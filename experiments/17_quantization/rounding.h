// Quantizes a model's weights and measures the errors.
#pragma once

#include <span>
#include <vector>

#include "core/weights.h"

namespace folio::experiments {

/// Returns the model with its matrices quantized to `type`. For Q4_0 and Q4_1, the embedding and the output matrix
/// are quantized to Q8_0. Groups of 32 may span rows, which the engine does not support (see whole_rows()). Throws
/// core::Error if a matrix's number of elements is not a multiple of 32, except for types without groups.
[[nodiscard]] core::StoredModel in_type(const core::StoredModel& model, core::DType type);

/// Returns true if each row of each matrix is a whole number of groups of 32, as the engine requires.
[[nodiscard]] bool whole_rows(const core::StoredModel& model);

/// Returns the model with its weights dequantized to float32, for which the engine quantizes no activations.
[[nodiscard]] core::StoredModel as_floats(const core::StoredModel& model);

/// Returns a model with the given weights, and with the path and format of `model`.
[[nodiscard]] core::StoredModel with_weights(const core::StoredModel& model, core::Weights weights);

/// Returns `values` after quantization to `type` and dequantization. The number of values must be a multiple of 32.
[[nodiscard]] std::vector<float> rounded(std::span<const float> values, core::DType type);

/// Returns the relative error of `b`, √(Σ (a - b)² / Σ a²).
[[nodiscard]] double relative_error(std::span<const float> a, std::span<const float> b);

}  // namespace folio::experiments
