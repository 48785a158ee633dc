// Loads the study's model and computes the validation loss of each window, so that the losses of two quantizations can
// be compared window by window.
#pragma once

#include <cstdint>
#include <vector>

#include "core/weights.h"
#include "experiments/common/report.h"
#include "experiments/common/statistics.h"
#include "infer/cpu/cpu.h"

namespace folio::experiments {

struct Judged {
  core::StoredModel model;
  std::vector<int32_t> validation;  ///< tokens from the beginning of TinyShakespeare's last tenth
};

/// Loads the studies' model and validation tokens. Throws core::Error if the tokenizer can't encode the corpus.
[[nodiscard]] Judged load_judged(const Report& report);

/// Returns the mean loss of each window of 256 tokens (fewer if the model's context is shorter), in nats per token.
[[nodiscard]] std::vector<double> losses(const core::StoredModel& model, const std::vector<int32_t>& tokens,
                                         infer::Cpu& cpu);

}  // namespace folio::experiments
