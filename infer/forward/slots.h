// The activations of a step.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/model_config.h"

namespace folio::infer {

/// (rows, width of the slot on this machine). Routes has a row's weight of each expert, 0 of those that it doesn't
/// take. SharedGate and SharedUp are of the experts that all rows take; ExpertGate and ExpertUp, (experts of a row,
/// expert_dim) for each row, of its own, in an order of the machine's.
enum class Slot : uint8_t {
  Residual,
  Normed,
  Query,
  Key,
  Value,
  Heads,
  Gate,
  Up,
  Routes,
  ExpertGate,
  ExpertUp,
  SharedGate,
  SharedUp,
  Branch,  ///< what is to be added to Residual, where that is normalized or scaled first
  Logits
};
inline constexpr size_t kSlots = 15;

/// Numbers of a row in each slot.
using SlotWidths = std::array<size_t, kSlots>;
[[nodiscard]] SlotWidths slot_widths(const core::ModelConfig& config);

}  // namespace folio::infer
