// Shows a stage's slots to an observer of the forward pass.
#pragma once

#include <fmt/format.h>

#include <vector>

#include "infer/forward/forward.h"

namespace folio::infer {

/// Reads slots from a stage and passes them to the observer, if there is one. Slots without elements are not shown.
class Watch {
 public:
  Watch(Stage& stage, const Observer& observer) : stage_(stage), observer_(observer) {}

  void operator()(const char* what, Slot slot, size_t n_rows, int64_t layer = -1) {
    if (!observer_ || stage_.width(slot) == 0) return;
    values_.resize(n_rows * stage_.width(slot));
    stage_.results().read(slot, values_);
    observer_(layer < 0 ? what : fmt::format("layers.{}.{}", layer, what), values_, n_rows);
  }

 private:
  Stage& stage_;
  const Observer& observer_;
  std::vector<float> values_;
};

}  // namespace folio::infer
