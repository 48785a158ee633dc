// Model FLOPs utilization (MFU): the FLOP/s that training achieves (FLOPs per token x tokens/s), divided by the peak,
// the FLOP/s of large matrix products with the same number of threads and the same data type.
#pragma once

#include <torch/types.h>

#include <cstdint>

#include "core/manifest.h"
#include "core/model_config.h"
#include "train/config/choices.h"

namespace folio::train {

/// Returns the number of a tensor's elements; for the stacked experts of a mixture, only those of the experts that a
/// token is routed to.
[[nodiscard]] int64_t active_elements(const core::ModelConfig& config, const core::TensorSpec& spec);
/// Returns the sum of active_elements() over all tensors.
[[nodiscard]] int64_t active_parameters(const core::ModelConfig& config);

/// Returns the FLOPs of one token's forward and backward pass in windows of `window` tokens, 6 N + 12 L H Q T
/// (Chowdhery et al. 2022, PaLM, appendix B): N active parameters without an untied embedding, L layers, H heads of
/// width Q, T the window. Attention is counted without its mask. 4 N instead of 6 N for a `frozen` model, which needs
/// no weight gradients.
[[nodiscard]] double operations_per_token(const core::ModelConfig& config, int64_t window, bool frozen = false);

struct MatrixPeak {
  double operations_per_s;  ///< FLOP/s; an n x n product has 2 n³ FLOPs
  int64_t size;             ///< n of the fastest product
};

/// Measures products of square matrices of growing sizes, for up to about 0.3 s, and returns the highest FLOP/s and the
/// size that reached it. Uses no random numbers.
[[nodiscard]] MatrixPeak matrix_peak(Precision dtype, torch::Device device);

/// Returns Bf16 or F32, whichever has the higher matrix_peak(): on a CPU without bfloat16 instructions, that is F32.
[[nodiscard]] Precision faster_precision(torch::Device device);

}  // namespace folio::train
