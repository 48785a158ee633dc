// Shape checks. Every shape error shows the expected and the actual shape.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/types.h>

#include <string>

#include "core/error.h"

namespace folio::nn {

/// Returns a tensor's type and shape, such as "Float [2, 5, 16]".
[[nodiscard]] inline std::string describe(const torch::Tensor& x) {
  return fmt::format("{} [{}]", c10::toString(x.scalar_type()), fmt::join(x.sizes(), ", "));
}

/// Throws core::Error unless x is [B, T, dim]. The message begins with `name`, the module's name.
inline void require_BTD(const torch::Tensor& x, int64_t dim, const char* name) {
  if (x.dim() != 3 || x.size(2) != dim) {
    core::fail("{}: the input is {}, expected [B, T, {}]", name, describe(x), dim);
  }
}

}  // namespace folio::nn
