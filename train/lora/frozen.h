// Weights that are not trained: the matrices of a model file where they are mapped, in the type that they are stored
// in, 16 bits or blocks. A product expands the matrix that it needs, and forgets it: beside the mapped file there is
// never more than one product's matrices in memory (Dettmers et al., "QLoRA", 2023, section 3).
#pragma once

#include <torch/custom_class.h>
#include <torch/types.h>

#include <memory>
#include <string>
#include <vector>

#include "core/weights.h"

namespace folio::train::lora {

/// A matrix [rows, columns] of a file. The base class lets an autograd graph hold it.
class FrozenMatrix : public torch::CustomClassHolder {
 public:
  /// `stored` is one of the model's.
  FrozenMatrix(std::shared_ptr<const core::StoredModel> model, const core::TensorView& stored);

  [[nodiscard]] int64_t rows() const { return stored_.shape[0]; }
  [[nodiscard]] int64_t columns() const { return stored_.shape[1]; }

  /// All of it as a floating-point type, on the CPU. Where it is stored in that type, the tensor is the mapped file
  /// itself, and must not be written to.
  [[nodiscard]] torch::Tensor to(torch::ScalarType type) const;
  /// The same into `out` [rows, columns], whose rows are contiguous.
  void write(const torch::Tensor& out) const;
  /// Rows by their ids, int64 [...], as floats [..., columns]. Throws core::Error for an id that is no row.
  [[nodiscard]] torch::Tensor rows_of(const torch::Tensor& ids) const;

 private:
  void write_rows(int64_t first, const torch::Tensor& out) const;

  std::shared_ptr<const core::StoredModel> model_;  ///< owns the bytes
  const core::TensorView& stored_;
  torch::Tensor numbers_;  ///< the mapped ones as a tensor; undefined for blocks
};

/// The tensor of a file by the name of the module's parameter: "layers.0.attention.wq.weight", … `manifest` is that of
/// the model's configuration.
[[nodiscard]] const core::TensorView& tensor_of(const core::StoredModel& model,
                                                const std::vector<core::TensorSpec>& manifest, const std::string& name);

/// The type of the products of an `x`: its own, or autocast's where that is on.
[[nodiscard]] torch::ScalarType product_type(const torch::Tensor& x);

/// x Wᵀ, and its gradient by x alone; x [..., columns]. Within autocast the product is in its type.
[[nodiscard]] torch::Tensor multiply(const torch::Tensor& x, const c10::intrusive_ptr<FrozenMatrix>& matrix);

}  // namespace folio::train::lora
