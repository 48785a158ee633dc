// Model FLOPs utilization: the operations that training a token needs, against those of large matrix products,
// measured on the same threads and in the same type.
#pragma once

#include <torch/types.h>

#include <cstdint>

#include "core/manifest.h"
#include "core/model_config.h"
#include "train/config/choices.h"

namespace folio::train {

/// Elements of a tensor that the forward pass of a token uses: of a stack, those of its experts.
[[nodiscard]] int64_t active_elements(const core::ModelConfig& config, const core::TensorSpec& spec);
/// Those of all tensors.
[[nodiscard]] int64_t active_parameters(const core::ModelConfig& config);

/// Floating-point operations of the forward and the backward pass of one token in windows of `window` tokens, as in
/// Chowdhery et al. 2022 (PaLM), appendix B: 6 N + 12 L H Q T, with N the active parameters (without an embedding that
/// is only looked up), L layers, H heads of width Q and T the window. Attention counts whole, without the mask. For a
/// `frozen` model 4 N, since the gradients of its weights are not computed.
[[nodiscard]] double operations_per_token(const core::ModelConfig& config, int64_t window, bool frozen = false);

struct MatrixPeak {
  double operations_per_s;  ///< 2 n³ for a product of n x n
  int64_t size;             ///< n of the fastest one
};

/// The fastest of some products of square matrices of growing sizes, within 0.3 s. Uses no random numbers.
[[nodiscard]] MatrixPeak matrix_peak(Precision dtype, torch::Device device);

/// Bf16 or F32: the one with the higher matrix_peak. Without instructions for bfloat16 a CPU's products in it are
/// up to forty times slower than in f32, with them twice as fast or more.
[[nodiscard]] Precision faster_precision(torch::Device device);

}  // namespace folio::train
