// The activations of a step: named arrays that the operations of the forward pass read and write.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/model_config.h"

namespace folio::infer {

/// An activation array of shape (rows, width of the slot on this machine). Routes has each expert's weight for a row, 0
/// if the expert is not selected. SharedGate and SharedUp belong to the experts that all rows use. ExpertGate and
/// ExpertUp have (experts per row, expert_dim) values for each row, in a machine-specific order. QueryLatent, Latent,
/// Absorbed and Attended belong to latent attention. Latent has kv_lora_rank elements, then the RoPE part of the key.
/// Absorbed and Attended have as many elements per head as Latent, but Attended uses only the first kv_lora_rank.
enum class Slot : uint8_t {
  Residual,
  Normed,
  Query,
  Key,
  Value,
  QueryLatent,
  Latent,
  Absorbed,
  Attended,
  Heads,
  Gate,
  Up,
  Routes,
  ExpertGate,
  ExpertUp,
  SharedGate,
  SharedUp,
  Branch,  ///< a result that is normalized or scaled before it is added to Residual
  Hidden,  ///< Residual of all rows after the final norm, if Step::keeps_hidden; width 0 unless n_tokens_ahead > 0
  Logits
};
inline constexpr size_t kSlots = 20;

/// Elements per row in each slot.
using SlotWidths = std::array<size_t, kSlots>;
[[nodiscard]] SlotWidths slot_widths(const core::ModelConfig& config);

}  // namespace folio::infer
