// Frozen weights: matrices of a memory-mapped model file in their stored type, 16-bit or quantized. Each product
// dequantizes the matrix that it needs and then frees it, so that in addition to the mapped file only one product's
// matrices are in memory at a time (Dettmers et al., "QLoRA", 2023, section 3).
#pragma once

#include <torch/types.h>

#include <memory>
#include <string>
#include <vector>

#include "core/weights.h"

namespace folio::train::lora {

/// A frozen matrix [rows, columns] of a model file.
class FrozenMatrix {
 public:
  /// Refers to `stored`, which must be a tensor of `model`.
  FrozenMatrix(std::shared_ptr<const core::StoredModel> model, const core::TensorView& stored);

  [[nodiscard]] int64_t rows() const { return stored_.shape[0]; }
  [[nodiscard]] int64_t columns() const { return stored_.shape[1]; }

  /// Returns the matrix as a floating-point type, on the CPU. If it is stored in this type, the tensor is a view of the
  /// mapped file and must not be written to.
  [[nodiscard]] torch::Tensor to(torch::ScalarType type) const;
  /// Writes the matrix to `out` [rows, columns], converted to its type. Rows of `out` must be contiguous.
  void write(const torch::Tensor& out) const;
  /// Returns rows by index, int64 [...], as floats [..., columns]. Throws core::Error for an index out of range.
  [[nodiscard]] torch::Tensor rows_of(const torch::Tensor& ids) const;

 private:
  void write_rows(int64_t first, const torch::Tensor& out) const;

  std::shared_ptr<const core::StoredModel> model_;  ///< owns the memory of stored_
  const core::TensorView& stored_;
  torch::Tensor numbers_;  ///< view of the mapped values; undefined for quantized types
};

/// Returns the file's tensor for a module parameter, such as "layers.0.attention.wq.weight". `manifest` must be the
/// tensor_manifest() of the model's configuration. Throws core::Error for an unknown name.
[[nodiscard]] const core::TensorView& tensor_of(const core::StoredModel& model,
                                                const std::vector<core::TensorSpec>& manifest, const std::string& name);

/// Returns the type of a product of x: autocast's type if enabled, else the type of x.
[[nodiscard]] torch::ScalarType product_type(const torch::Tensor& x);

/// Returns x Wᵀ for x [..., columns], of the type product_type(x), with a gradient for x only.
[[nodiscard]] torch::Tensor multiply(const torch::Tensor& x, const std::shared_ptr<const FrozenMatrix>& matrix);

}  // namespace folio::train::lora
