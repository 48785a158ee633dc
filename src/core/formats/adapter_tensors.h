// Reads the tensors of an adapter, in peft's or llama.cpp's format: two (a and b) per adapted matrix, and no others.
#pragma once

#include <array>
#include <functional>
#include <span>
#include <string>
#include <utility>
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

/// Returns the parts in manifest order, with the rows of b as in the file. `scaling` returns the rank and the scale for
/// a matrix and its tensor a. Throws Error that names the file if a or b is missing or has another shape or a type that
/// weights can't have, if a tensor belongs to no matrix of the blocks, or if the file has no adapter.
[[nodiscard]] std::vector<Adapter::Part> adapter_parts(
    const AdapterTensors& tensors, const ModelConfig& config,
    const std::function<std::pair<int64_t, float>(const TensorSpec& spec, const TensorView& a)>& scaling);

}  // namespace folio::core
