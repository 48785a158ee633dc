// Conversion between a LibTorch model and core::Weights, which core/ writes to files.
#pragma once

#include "core/adapter.h"
#include "core/formats/model_files.h"
#include "modules/llama.h"
#include "train/lora/lora.h"

namespace folio::train {

/// Copies of all parameters, in the manifest's order. Throws core::Error if the model has other parameters.
[[nodiscard]] core::Weights weights_of(const nn::Llama& model);

/// Copies of all gradients, in the same order; zeros for a parameter without one.
[[nodiscard]] core::Weights gradients_of(const nn::Llama& model);

/// The model as an engine takes it; `weights` has to live as long.
[[nodiscard]] core::StoredModel stored_model(const core::Weights& weights);

/// Copies of a model's adapters (lora.h), or of their gradients, as core::write_adapter() takes them. `options`
/// are those that made them.
[[nodiscard]] core::Adapter adapter_of(const nn::Llama& model, const lora::LoraOptions& options);
[[nodiscard]] core::Adapter adapter_gradients_of(const nn::Llama& model, const lora::LoraOptions& options);

/// Copies an adapter's numbers into the model's. Throws core::Error if it has others.
void load_adapter(const core::Adapter& adapter, nn::Llama& model);

/// Copies the weights into the model's parameters. Throws core::Error if the configurations differ.
void load_weights(const core::Weights& weights, nn::Llama& model);

}  // namespace folio::train
