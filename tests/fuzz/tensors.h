// Checks of tensors that a fuzz target read from a file.
#pragma once

#include <vector>

#include "core/tensor_view.h"
#include "tests/fuzz/fuzz.h"

namespace folio::fuzz {

/// Returns true if the tensors have equal names, types, shapes and bytes, in the same order.
bool same_tensors(const std::vector<core::TensorView>& a, const std::vector<core::TensorView>& b);

/// Checks that each tensor has as many bytes as its type and shape require, and reads every byte.
void touch_tensors(const std::vector<core::TensorView>& tensors);

/// Checks a file's tensors like touch_tensors(file.tensors()), and that the file finds each tensor by name.
template <typename File>
void touch_tensors(const File& file) {
  touch_tensors(file.tensors());
  for (const core::TensorView& tensor : file.tensors()) {
    check(file.find_tensor(tensor.name) == &tensor, "a tensor is found by its name");
  }
}

}  // namespace folio::fuzz
