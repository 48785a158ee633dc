// Shared by the study's parts: the model, its losses, and the loss increase of changed weights.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/manifest.h"
#include "experiments/17_quantization/judged.h"
#include "experiments/common/report.h"

namespace folio::experiments {

struct Study {
  Report& report;
  Judged judged;
  core::StoredModel exact;  ///< the model in float32
  infer::Cpu cpu{};
  std::vector<double> losses{};  ///< of the exact model, by window

  /// Returns the loss of a changed model minus that of the exact one, on the same windows.
  [[nodiscard]] Interval cost(const core::StoredModel& model) {
    return paired_interval(experiments::losses(model, judged.validation, cpu), losses);
  }
};

/// Returns the kind of a matrix: "attn_q" for "blk.0.attn_q.weight", "token_embd" for "token_embd.weight".
[[nodiscard]] std::string kind_of(const core::TensorSpec& spec);

/// Returns the concatenated values of all matrices of each kind.
[[nodiscard]] std::map<std::string, std::vector<float>> by_kind(const core::StoredModel& model);

/// Returns a type's name, such as "Q4_0".
[[nodiscard]] std::string name_of(core::DType type);

/// Formats an interval: "+0.0123 [+0.0100, +0.0146]".
[[nodiscard]] std::string shown(const Interval& interval);

/// Studies outliers in groups, and in a model that computes the same function with them.
void plant_outliers(Study& s);

/// Studies groups with a nonzero mean.
void shift_groups(Study& s);

}  // namespace folio::experiments
