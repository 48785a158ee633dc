// Shows a stage's slots to an observer of the forward pass.
#pragma once

#include <fmt/format.h>

#include <vector>

#include "infer/forward/forward.h"

namespace folio::infer {

/// Reads slots from a stage, passes them to the observer, if there is one, and writes its changes back. Skips slots of
/// width 0.
class SlotObserver {
 public:
  SlotObserver(Stage& stage, const Observer& observer) : stage_(stage), observer_(observer) {}

  void operator()(const char* what, Slot slot, size_t n_rows, int64_t layer = -1) {
    if (!observer_ || stage_.width(slot) == 0) return;
    values_.resize(n_rows * stage_.width(slot));
    stage_.read(slot, values_);
    const std::string name = layer < 0 ? what : fmt::format("layers.{}.{}", layer, what);
    if (observer_(name, values_, n_rows)) stage_.write(slot, values_);
  }

 private:
  Stage& stage_;
  const Observer& observer_;
  std::vector<float> values_;
};

}  // namespace folio::infer
