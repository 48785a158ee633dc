// Reads the tensors of an adapter, in peft's or llama.cpp's format: two (a and b) per adapted matrix, and no others.
#pragma once

#include <array>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/adapter.h"

namespace folio::core {

struct AdapterTensors {
  std::span<const TensorView> all;                       ///< all tensors of the file
  std::function<std::string(const TensorSpec&)> name;    ///< returns a matrix's name in the file
  std::array<std::string, 2> endings;                    ///< name suffixes of a and b after ".": "lora_a", "lora_b"
  std::string tail;                                      ///< end of the names after the suffix, such as ".weight"
  std::string where;                                     ///< path of the file, for error messages
  std::function<std::string()> why = [] { return ""; };  ///< returns a note appended to shape errors
};

/// Calls `take` with the tensors a and b of each adapted matrix, in manifest order, and returns the resulting parts.
/// Throws Error that names the file if a or b is missing, if a tensor belongs to no matrix of the blocks, or if the
/// file has no adapter.
[[nodiscard]] std::vector<Adapter::Part> adapter_parts(
    const AdapterTensors& tensors, const ModelConfig& config,
    const std::function<Adapter::Part(const TensorSpec& spec, const TensorView& a, const TensorView& b)>& take);

/// Returns a tensor's elements. Throws Error that names the file if the shape differs from `shape` or the type is not
/// one that weights can have.
[[nodiscard]] std::vector<float> adapter_floats(const AdapterTensors& tensors, const TensorView& tensor,
                                                const std::vector<int64_t>& shape);

}  // namespace folio::core
