// The model that the study is about, and its loss on the validation split: by window, so that two forms of the model
// are compared on the same text.
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
  std::vector<int32_t> validation;  ///< the first tokens of TinyShakespeare's last tenth
};

/// Of the reader's model (readers_model.h). Throws core::Error if its tokenizer can't read the corpus.
[[nodiscard]] Judged load_judged(const Report& report);

/// The mean loss of each window of 256 tokens, in nats per token.
[[nodiscard]] std::vector<double> losses(const core::StoredModel& model, const std::vector<int32_t>& tokens,
                                         infer::Cpu& cpu);

}  // namespace folio::experiments
