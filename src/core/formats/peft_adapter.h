// peft's adapter format (https://github.com/huggingface/peft): a directory with adapter_config.json and
// adapter_model.safetensors.
#pragma once

#include <filesystem>
#include <string>

#include "core/adapter.h"

namespace folio::core {

/// Reads an adapter for a model with this configuration and multiplies its scale by `factor`. Throws Error if something
/// is missing, has the wrong shape or is not supported. Supports linear layers of the blocks, without biases or
/// DoRA, up to rank kMaxAdapterRank. rank_pattern and alpha_pattern may override rank and alpha of single modules.
[[nodiscard]] Adapter read_peft_adapter(const std::filesystem::path& directory, const ModelConfig& config,
                                        float factor = 1.0F);

/// Returns the adapter's settings. Throws Error as read_peft_adapter does, but does not check shapes.
[[nodiscard]] AdapterInfo read_adapter_info(const std::filesystem::path& directory);

/// Returns the name of a role's matrix in target_modules: "q_proj" for Role::Wq. Throws Error for a role that is not a
/// matrix of the blocks.
[[nodiscard]] std::string target_name(Role role);

/// Writes adapter_config.json and adapter_model.safetensors (F32) into an existing directory, each atomically, as
/// peft's save_pretrained does. `config` is that of the base model. Throws Error unless all parts have the rank, scale
/// and targets of `info` and fit the model's matrices.
void write_adapter(const std::filesystem::path& directory, const ModelConfig& config, const Adapter& adapter,
                   const AdapterInfo& info);

}  // namespace folio::core
