// The forward pass, shared by all machines and model families.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "infer/forward/machine.h"

namespace folio::infer {

/// Called with each named intermediate result of a step, of shape (n_rows, values.size() / n_rows). Names: "embedding";
/// "layers.N." followed by "attention_norm", "projected_query" and "projected_key", "query" and "key" (after their
/// norm, if any, and RoPE), "value", "heads" (before Wo), "attention_residual", "ffn_norm", "routes" (each expert's
/// weight), "ffn_hidden" (silu(gate) * up), "ffn_residual"; then "norm" and "logits". Latent attention has
/// "projected_latent" (after its norm, before RoPE) and "latent" instead of keys and values. From the last layer's
/// "heads" on, `values` has only the rows that need logits; without such rows, there are no more calls. Returns true if
/// it changed `values`: the step then continues with them. Changes of "key", "latent", "value" and "routes" have no
/// effect, since the machine has already used them. Without pre-norms (OLMo 2), "attention_norm" and "ffn_norm" are the
/// residual stream itself, and a change alters it.
using Observer = std::function<bool(const std::string& name, std::span<float> values, size_t n_rows)>;

/// Runs a step through the stages, which together contain all layers in order. Slot::Logits of the last stage then
/// holds the logits of the rows that need them.
void forward(std::span<const std::unique_ptr<Stage>> stages, Step step, const Observer& observer);

}  // namespace folio::infer
