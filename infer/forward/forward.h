// The forward pass, once for every machine and family.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "infer/forward/machine.h"

namespace folio::infer {

/// Sees each named intermediate of a step's rows: values is (n_rows, values.size() / n_rows). Names: "embedding";
/// "layers.N." before "attention_norm", "query" and "key" (both normalized, if the family
/// does so, and rotated), "value", "heads" (before Wo),
/// "attention_residual", "ffn_norm", "routes" (each expert's weight), "ffn_hidden" (silu(gate) * up), "ffn_residual";
/// then "norm" and "logits". From the last layer's "heads" on there are only the rows that want logits; if none does,
/// nothing.
using Observer = std::function<void(const std::string& name, std::span<const float> values, size_t n_rows)>;

/// Runs a step through the stages, which together have all layers, in order. Afterwards the last one's Slot::Logits has
/// the logits of the rows that need them.
void forward(std::span<const std::unique_ptr<Stage>> stages, Step step, const Observer& observer);

}  // namespace folio::infer
