// A weight matrix in one of the three kinds: floats and 16-bit numbers, used where they are mapped, or groups, repacked
// once at load. The kernels define the order of each sum: see reference/kernels.h.
#pragma once

#include <span>
#include <variant>

#include "infer/reference/kernels.h"

namespace folio::infer {

/// Rows of inputs, (n_rows, k): as floats; packed, too, where Kernels::matmul_packed is to multiply them, else null;
/// quantized where a matrix in groups is multiplied; rounded to BF16,
/// (n_rows, panel_columns(k)), where one in panels is, else null.
struct Inputs {
  const float* floats;
  const float* packed;
  const kernels::BF16* fast;
  kernels::QuantizedInputs quantized;
  size_t n_rows;
};

/// A view: CpuWeights owns the bytes, or keeps the file mapped.
struct Matrix {
  std::variant<const float*, const kernels::F16*, const kernels::BF16*, kernels::GroupMatrix, kernels::PanelMatrix>
      weights;
  size_t n_out = 0;  ///< rows
  size_t k = 0;      ///< columns
  size_t first = 0;  ///< of the whole matrix' rows, where these begin: not 0 on a rank of several

  [[nodiscard]] bool in_groups() const { return std::holds_alternative<kernels::GroupMatrix>(weights); }
  [[nodiscard]] bool in_panels() const { return std::holds_alternative<kernels::PanelMatrix>(weights); }

  /// out[n * out_stride + r] = Σ_k x[n, k] weight[r, k] for the rows r in [begin, end); with `accumulate` it is added.
  void multiply(const kernels::Kernels& kernels, const Inputs& x, size_t begin, size_t end, float* out,
                size_t out_stride, bool accumulate) const;

  /// Row r as floats, exactly, into out (k).
  void row(size_t r, std::span<float> out) const;
};

}  // namespace folio::infer
