// Registers of kernels, from the tables of nvcc's reports: resources.txt here and in infer/cuda.
#pragma once

#include <optional>
#include <string>

namespace folio::experiments {

/// Returns a thread's registers in a kernel, such as "norm.cu:norm_block", for compute capability 9.0, or nothing
/// if no table lists it.
[[nodiscard]] std::optional<unsigned> registers_of(const std::string& kernel);

}  // namespace folio::experiments
