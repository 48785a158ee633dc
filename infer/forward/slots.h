// The activations of a step.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/model_config.h"

namespace folio::infer {

/// (rows, width of the slot on this machine).
enum class Slot : uint8_t { Residual, Normed, Query, Key, Value, Heads, Gate, Up, Logits };
inline constexpr size_t kSlots = 9;

/// Numbers of a row in each slot.
using SlotWidths = std::array<size_t, kSlots>;
[[nodiscard]] SlotWidths slot_widths(const core::ModelConfig& config);

}  // namespace folio::infer
