// Low-rank adapters on a model's linear layers: all that is trained, where the model itself is frozen.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/manifest.h"
#include "modules/llama.h"
#include "train/lora/linear.h"

namespace folio::train::lora {

struct LoraOptions {
  int64_t rank = 8;
  double alpha = 16.0;  ///< B A is scaled by alpha / rank
  double dropout = 0.0;
  std::vector<core::Role> targets;  ///< of Wq, Wk, Wv, Wo, W1, W3, W2
};

/// The matrices that "q,v" or "all" names, in the manifest's order. The names are q, k, v, o, gate, up and down, which
/// stand for peft's q_proj and so on. Throws core::UsageError that lists them.
[[nodiscard]] std::vector<core::Role> lora_targets(std::string_view names);

/// Copies of the file's numbers into a model that LoraLinears made: those of norms and biases, which are not trained.
void freeze_rest(nn::Llama& model, const FrozenWeights& weights);

/// Gives the targets of each layer of such a model an adapter that does nothing yet (linear.h).
void add_lora(nn::Llama& model, const LoraOptions& options);

/// Where the parameters of the adapters are: "layers.0.attention.wq" has .lora_a and .lora_b.
[[nodiscard]] std::string lora_module(const core::TensorSpec& spec);

}  // namespace folio::train::lora
