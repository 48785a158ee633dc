// What the measurements of bench share: requests with random prompts, the bytes that a step reads, medians.
#pragma once

#include <cstdint>
#include <vector>

#include "infer/engine/request.h"
#include "infer/forward/runner.h"

namespace folio::apps {

/// The upper one of the two in the middle, if there are two. `values` is not empty.
[[nodiscard]] double median(std::vector<double> values);

/// Returns a request for each of `batch` sequences, whose prompts are others in each repetition.
[[nodiscard]] std::vector<infer::Request> random_requests(const core::ModelConfig& config,
                                                          const infer::SamplerOptions& sampler, int64_t batch,
                                                          int repetition, int64_t prompt_tokens);

/// What a step of decoding reads of a model's weights: of experts those that its rows take, and else all.
struct StepReads {
  double bytes;    ///< of weights
  double experts;  ///< of a layer that has some; 0 in a model that has none
};

/// The mean of some steps in which `batch` sequences decode tokens by chance. The cache has room for them, and no
/// sequence.
[[nodiscard]] StepReads step_reads(infer::Runner& runner, int64_t batch);

}  // namespace folio::apps
