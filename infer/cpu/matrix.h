// A weight matrix of floats, F16, BF16 or quantized groups. reference/kernels.h defines the order of summation.
#pragma once

#include <span>
#include <variant>

#include "infer/reference/kernels.h"

namespace folio::infer {

/// Inputs of a product, (n_rows, k), in each format that its kernels read; formats that aren't needed are null.
/// `packed` is for Kernels::matmul_packed, `fast` is BF16 (n_rows, panel_columns(k)) for PanelMatrix, and `quantized`
/// is for group-quantized matrices.
struct InputsView {
  const float* floats;
  const float* packed;
  const kernels::BF16* fast;
  kernels::QuantizedInputs quantized;
  size_t n_rows;
};

/// A view of a weight matrix. The data belongs to CpuWeights or to the mapped file.
struct Matrix {
  std::variant<const float*, const kernels::F16*, const kernels::BF16*, kernels::GroupMatrix, kernels::PanelMatrix>
      weights;
  size_t n_out = 0;  ///< rows
  size_t k = 0;      ///< columns
  size_t first = 0;  ///< index in the whole matrix of this rank's first row

  [[nodiscard]] bool in_groups() const { return std::holds_alternative<kernels::GroupMatrix>(weights); }
  [[nodiscard]] bool in_panels() const { return std::holds_alternative<kernels::PanelMatrix>(weights); }

  /// Sets out[n * out_stride + r] to Σ_c x[n, c] weight[r, c] for r in [begin, end), or adds the sum if `accumulate`.
  void multiply(const kernels::Kernels& kernels, const InputsView& x, size_t begin, size_t end, float* out,
                size_t out_stride, bool accumulate) const;

  /// Dequantizes row r into out (k).
  void row(size_t r, std::span<float> out) const;
};

}  // namespace folio::infer
