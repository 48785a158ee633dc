// The quantization study's common state (the model and its losses), helper functions, and two of its experiments.
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
  std::vector<double> losses{};  ///< mean loss of `exact` in each window

  /// Returns the 95 % confidence interval of the loss of `model` minus that of `exact`, paired by window.
  [[nodiscard]] Interval cost(const core::StoredModel& model) {
    return paired_interval(experiments::losses(model, judged.validation, cpu), losses);
  }
};

/// Returns the kind of a matrix: "attn_q" for "blk.0.attn_q.weight", "token_embd" for "token_embd.weight".
[[nodiscard]] std::string kind_of(const core::TensorSpec& spec);

/// Returns, for each kind of matrix, the values of all matrices of the kind, concatenated.
[[nodiscard]] std::map<std::string, std::vector<float>> by_kind(const core::StoredModel& model);

/// Returns a type's name, such as "Q4_0".
[[nodiscard]] std::string name_of(core::DType type);

/// Measures quantization errors of groups with an outlier, and the loss of a model with outliers in w2.
void plant_outliers(Study& s);

/// Measures quantization errors of groups with a nonzero mean.
void shift_groups(Study& s);

}  // namespace folio::experiments
