// Conversions between a LibTorch model and core::Weights or core::Adapter, which core/ reads and writes.
#pragma once

#include "core/adapter.h"
#include "core/formats/model_files.h"
#include "modules/llama.h"
#include "train/config/train_config.h"

namespace folio::train {

enum class Copied { Values, Gradients };  ///< what to copy: parameters, or their gradients (zeros if missing)

/// Copies all parameters, or their gradients, in the order of core::tensor_manifest(). Throws core::Error if the number
/// of parameters differs from the manifest.
[[nodiscard]] core::Weights weights_of(const nn::Llama& model, Copied what = Copied::Values);

/// Copies a model's LoRA adapters, or their gradients, for core::write_adapter(). `info` must have
/// the same rank and scale() as in add_lora().
[[nodiscard]] core::Adapter adapter_of(const nn::Llama& model, const core::AdapterInfo& info,
                                       Copied what = Copied::Values);

/// Loads adapters into the model. Throws core::Error unless `adapter` and the model adapt the same matrices with equal
/// ranks.
void load_adapter(const core::Adapter& adapter, nn::Llama& model);

/// Loads a file's weights into the model's parameters. Throws core::Error if the configurations differ.
void load_weights(const core::StoredModel& file, nn::Llama& model);

}  // namespace folio::train
