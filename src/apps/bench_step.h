// What a step of decoding reads of a model's weights: of experts those that its rows take, and else all.
#pragma once

#include "infer/forward/runner.h"

namespace folio::apps {

struct StepReads {
  double bytes;    ///< of weights
  double experts;  ///< of a layer that has some; 0 in a model that has none
};

/// The mean of some steps in which `batch` sequences decode tokens by chance. The cache has room for them, and no
/// sequence.
[[nodiscard]] StepReads step_reads(infer::Runner& runner, int64_t batch);

}  // namespace folio::apps
