// Laws of the tensors of a file.
#pragma once

#include <vector>

#include "core/tensor_view.h"

namespace folio::fuzz {

/// Names, types, shapes and bytes are equal, in order.
bool same_tensors(const std::vector<core::TensorView>& a, const std::vector<core::TensorView>& b);

/// Each has as many bytes as its shape needs, and all can be read.
void touch_tensors(const std::vector<core::TensorView>& tensors);

/// The same for a file, which has to find each by its name.
template <typename File>
void touch_tensors(const File& file);

}  // namespace folio::fuzz

#include "tests/fuzz/fuzz.h"

namespace folio::fuzz {

template <typename File>
void touch_tensors(const File& file) {
  touch_tensors(file.tensors());
  for (const core::TensorView& tensor : file.tensors()) {
    law(file.find_tensor(tensor.name) == &tensor, "a tensor is found by its name");
  }
}

}  // namespace folio::fuzz
