// A model's weights in a type of fewer bits, and how far they then are from what they were.
#pragma once

#include <span>
#include <vector>

#include "core/weights.h"

namespace folio::experiments {

/// The model with its matrices as `type`, in memory. With Q4_0 and Q4_1 the embedding and the output are Q8_0. Groups
/// are cut from a matrix as if all its rows stood in one; see whole_rows(). Throws core::Error if one does not hold
/// whole groups.
[[nodiscard]] core::StoredModel in_type(const core::StoredModel& model, core::DType type);

/// Whether each row of each matrix holds whole groups of 32, as the engine needs them.
[[nodiscard]] bool whole_rows(const core::StoredModel& model);

/// The same numbers as floats: the engine then multiplies them as they are, and rounds nothing else.
[[nodiscard]] core::StoredModel as_floats(const core::StoredModel& model);

/// A model of these weights, with `model`'s name.
[[nodiscard]] core::StoredModel with_weights(const core::StoredModel& model, core::Weights weights);

/// `values` through blocks of `type` and back.
[[nodiscard]] std::vector<float> rounded(std::span<const float> values, core::DType type);

/// √(Σ (a - b)² / Σ a²).
[[nodiscard]] double relative_error(std::span<const float> a, std::span<const float> b);

}  // namespace folio::experiments
