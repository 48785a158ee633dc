// Quantizes a model's weights and measures the errors.
#pragma once

#include <span>
#include <vector>

#include "core/weights.h"

namespace folio::experiments {

/// Returns the model with its matrices quantized to `type`, in memory. Q4_0 and Q4_1 leave embedding and output as
/// Q8_0. Groups may span rows; see whole_rows(). Throws core::Error if a matrix is not a whole number of groups.
[[nodiscard]] core::StoredModel in_type(const core::StoredModel& model, core::DType type);

/// Returns true if each row of each matrix is a whole number of groups of 32, as the engine requires.
[[nodiscard]] bool whole_rows(const core::StoredModel& model);

/// Dequantizes the weights to float32, so that the engine quantizes no activations.
[[nodiscard]] core::StoredModel as_floats(const core::StoredModel& model);

/// Returns a model with these weights and `model`'s name.
[[nodiscard]] core::StoredModel with_weights(const core::StoredModel& model, core::Weights weights);

/// Quantizes `values` to `type` and dequantizes them.
[[nodiscard]] std::vector<float> rounded(std::span<const float> values, core::DType type);

/// Returns √(Σ (a - b)² / Σ a²).
[[nodiscard]] double relative_error(std::span<const float> a, std::span<const float> b);

}  // namespace folio::experiments
