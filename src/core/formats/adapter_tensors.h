// What both files of adapters have in common: two tensors for each matrix that is adapted, and no others.
#pragma once

#include <array>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/adapter.h"

namespace folio::core {

struct AdapterTensors {
  std::span<const TensorView> all;                       ///< of the file
  std::function<std::string(const TensorSpec&)> name;    ///< of a matrix
  std::array<std::string, 2> endings;                    ///< of a and b, behind ".": "lora_a", "lora_b"
  std::string tail;                                      ///< behind the ending
  std::string where;                                     ///< the file, for messages
  std::function<std::string()> why = [] { return ""; };  ///< goes on a message that something does not fit
};

/// The parts that `take` makes of the tensors a and b of each matrix, in the manifest's order. Throws Error, with the
/// file, if a matrix has only one of them, if a tensor belongs to no matrix of the blocks, and if there is none.
[[nodiscard]] std::vector<Adapter::Part> adapter_parts(
    const AdapterTensors& tensors, const ModelConfig& config,
    const std::function<Adapter::Part(const TensorSpec& spec, const TensorView& a, const TensorView& b)>& take);

/// Throws Error, with the file, unless the tensor has this shape.
void require_adapter_shape(const AdapterTensors& tensors, const TensorView& tensor, const std::vector<int64_t>& shape);

}  // namespace folio::core
