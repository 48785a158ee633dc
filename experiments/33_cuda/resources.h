// Looks up a kernel's register count in two tables made from nvcc's reports: resources.txt here and in infer/cuda.
#pragma once

#include <optional>
#include <string>

namespace folio::experiments {

/// Returns the registers per thread of a kernel, such as "norm.cu:norm_block", for compute capability 9.0, or
/// std::nullopt if no table lists the kernel.
[[nodiscard]] std::optional<unsigned> registers_of(const std::string& kernel);

}  // namespace folio::experiments
