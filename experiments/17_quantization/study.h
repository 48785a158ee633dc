// What the parts of the study share: the model, its losses, and what a change of its weights costs.
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
  core::StoredModel exact;  ///< the model in floats
  infer::Cpu cpu{};
  std::vector<double> losses{};  ///< of the exact model, by window

  /// The loss of another form of the model minus that of the exact one, on the same windows.
  [[nodiscard]] Interval cost(const core::StoredModel& model) {
    return paired_interval(experiments::losses(model, judged.validation, cpu), losses);
  }
};

/// "attn_q" of "blk.0.attn_q.weight", "token_embd" of "token_embd.weight": matrices of a kind go by one name.
[[nodiscard]] std::string kind_of(const core::TensorSpec& spec);

/// The numbers of all matrices of a kind, one after the other.
[[nodiscard]] std::map<std::string, std::vector<float>> by_kind(const core::StoredModel& model);

/// "Q4_0"
[[nodiscard]] std::string name_of(core::DType type);

/// "+0.0123 [+0.0100, +0.0146]"
[[nodiscard]] std::string shown(const Interval& interval);

/// Outliers in groups, and in a model that computes the same function with them.
void plant_outliers(Study& s);

/// Groups whose mean is not 0.
void shift_groups(Study& s);

}  // namespace folio::experiments
