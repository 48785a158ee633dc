// Functions that several measurements of bench use: random prompts, bytes read per step, medians.
#pragma once

#include <cstdint>
#include <vector>

#include "infer/engine/request.h"
#include "infer/forward/runner.h"

namespace folio::apps {

/// Returns the median, or the larger middle value if the number of values is even. `values` must not be empty.
[[nodiscard]] double median(std::vector<double> values);

/// Returns `batch` requests with random prompts of `prompt_tokens` tokens, different in each repetition.
[[nodiscard]] std::vector<infer::Request> random_requests(const core::ModelConfig& config,
                                                          const infer::SamplerOptions& sampler, int64_t batch,
                                                          int repetition, int64_t prompt_tokens);

/// Weights that a decode step reads. Experts to which no row is routed are not counted.
struct StepReads {
  double bytes;    ///< bytes of weights, including those of experts
  double experts;  ///< mean number of experts read per layer with experts; 0 for a dense model
};

/// Returns the mean reads of a step in which `batch` sequences decode random tokens. The runner's KV cache must be
/// empty and large enough for them.
[[nodiscard]] StepReads step_reads(infer::Runner& runner, int64_t batch);

}  // namespace folio::apps
