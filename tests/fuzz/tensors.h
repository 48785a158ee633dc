// Properties of a file's tensors.
#pragma once

#include <vector>

#include "core/tensor_view.h"

namespace folio::fuzz {

/// Returns true if names, types, shapes and bytes are equal, in order.
bool same_tensors(const std::vector<core::TensorView>& a, const std::vector<core::TensorView>& b);

/// Checks that each tensor has as many bytes as its shape needs, and reads them all.
void touch_tensors(const std::vector<core::TensorView>& tensors);

/// Does the same for a file, and checks that it finds each tensor by name.
template <typename File>
void touch_tensors(const File& file);

}  // namespace folio::fuzz

#include "tests/fuzz/fuzz.h"

namespace folio::fuzz {

template <typename File>
void touch_tensors(const File& file) {
  touch_tensors(file.tensors());
  for (const core::TensorView& tensor : file.tensors()) {
    check(file.find_tensor(tensor.name) == &tensor, "a tensor is found by its name");
  }
}

}  // namespace folio::fuzz
