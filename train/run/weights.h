// Conversion between a LibTorch model and core::Weights, which core/ writes to files.
#pragma once

#include "core/adapter.h"
#include "core/formats/model_files.h"
#include "modules/llama.h"
#include "train/config/train_config.h"

namespace folio::train {

enum class Copied { Values, Gradients };  ///< of a parameter; zeros for one without a gradient

/// Copies of all parameters, in the manifest's order. Throws core::Error if the model has other parameters.
[[nodiscard]] core::Weights weights_of(const nn::Llama& model, Copied what = Copied::Values);

/// Copies of a model's adapters (lora.h), for core::write_adapter(). `config` is the one that made them.
[[nodiscard]] core::Adapter adapter_of(const nn::Llama& model, const TrainConfig& config, Copied what = Copied::Values);

/// Copies an adapter's numbers into the model's. Throws core::Error if it has others.
void load_adapter(const core::Adapter& adapter, nn::Llama& model);

/// Copies the weights into the model's parameters. Throws core::Error if the configurations differ.
void load_weights(const core::Weights& weights, nn::Llama& model);

}  // namespace folio::train
