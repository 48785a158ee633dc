// The quantization study's common state (the model and its losses), and helper functions.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/manifest.h"
#include "core/weights.h"
#include "experiments/common/report.h"
#include "infer/cpu/cpu.h"

namespace folio::experiments {

struct Study {
  Report& report;
  core::StoredModel model;
  core::StoredModel exact;          ///< `model` in float32
  std::vector<int32_t> validation;  ///< tokens from the beginning of TinyShakespeare's last tenth
  infer::Cpu cpu{};
  std::vector<double> losses{};  ///< losses_of(exact)

  /// Returns a model's mean loss in each window of 256 validation tokens (fewer if the context is shorter), in nats per
  /// token.
  [[nodiscard]] std::vector<double> losses_of(const core::StoredModel& quantized);

  /// Returns the 95 % confidence interval of a model's loss minus that of `exact`, paired by window.
  [[nodiscard]] Interval cost(const core::StoredModel& quantized) {
    return paired_interval(losses_of(quantized), losses);
  }
};

/// Returns the kind of a matrix: "attn_q" for "blk.0.attn_q.weight", "token_embd" for "token_embd.weight".
[[nodiscard]] std::string kind_of(const core::TensorSpec& spec);

/// Returns, for each kind of matrix, the values of all matrices of the kind, concatenated.
[[nodiscard]] std::map<std::string, std::vector<float>> by_kind(const core::StoredModel& model);

/// Returns a type's name, such as "Q4_0".
[[nodiscard]] std::string name_of(core::DType type);

}  // namespace folio::experiments
