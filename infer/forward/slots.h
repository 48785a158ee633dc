// The activations of a step: named arrays that the operations of the forward pass read and write.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/model_config.h"

namespace folio::infer {

/// An activation array of shape (rows, width of the slot on this machine). Routes has each expert's weight for a row, 0
/// if the expert is not selected. SharedGate and SharedUp belong to the experts that all rows use. ExpertGate and
/// ExpertUp have (experts per row, expert_dim) values for each row, in a machine-specific order. QueryLatent, Latent
/// (kv_lora_rank elements, then those of the key with RoPE), Absorbed and Attended belong to latent attention: the last
/// two have as many elements per head as Latent, of which Attended uses the first kv_lora_rank.
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
  Hidden,  ///< Residual after the final norm, of all rows, in models with n_tokens_ahead; see Step::keeps_hidden
  Logits
};
inline constexpr size_t kSlots = 20;

/// Elements per row in each slot.
using SlotWidths = std::array<size_t, kSlots>;
[[nodiscard]] SlotWidths slot_widths(const core::ModelConfig& config);

}  // namespace folio::infer
