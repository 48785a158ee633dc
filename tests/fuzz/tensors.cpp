#include "tests/fuzz/tensors.h"

#include <algorithm>

namespace folio::fuzz {

bool same_tensors(const std::vector<core::TensorView>& a, const std::vector<core::TensorView>& b) {
  return std::ranges::equal(a, b, [](const core::TensorView& x, const core::TensorView& y) {
    return x.name == y.name && x.type == y.type && x.shape == y.shape && std::ranges::equal(x.bytes, y.bytes);
  });
}

void touch_tensors(const std::vector<core::TensorView>& tensors) {
  for (const core::TensorView& tensor : tensors) {
    touch(tensor.bytes);
    check(tensor.bytes.size() == core::tensor_bytes(tensor.type, tensor.shape), "a tensor has the bytes of its shape");
  }
}

}  // namespace folio::fuzz
