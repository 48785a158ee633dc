// An adapter as peft stores it (https://github.com/huggingface/peft): a directory with adapter_config.json and
// adapter_model.safetensors.
#pragma once

#include <filesystem>
#include <string>

#include "core/adapter.h"

namespace folio::core {

/// The adapter in `directory` for a model of this configuration, its scale times `factor`. Throws Error that says what
/// is missing, is of another shape than the model's, or is not supported: only linear layers of the blocks, no biases,
/// no DoRA, ranks up to kMaxAdapterRank, which rank_pattern and alpha_pattern may say for single modules.
[[nodiscard]] Adapter read_peft_adapter(const std::filesystem::path& directory, const ModelConfig& config,
                                        float factor = 1.0F);

/// What the adapter in `directory` says of itself. Throws Error as read_peft_adapter does, but for shapes.
[[nodiscard]] AdapterInfo read_adapter_info(const std::filesystem::path& directory);

/// The name of such a matrix among a config's target_modules: "q_proj" of Role::Wq. Throws Error for a tensor that is
/// no matrix of the blocks.
[[nodiscard]] std::string target_name(Role role);

/// Writes adapter_config.json and adapter_model.safetensors (F32) into `directory`, which exists, as peft's
/// save_pretrained does; each file atomically. read_peft_adapter() gives the same parts. `config` is the base's. Throws
/// Error unless the parts have the info's rank, scale and targets and the shapes of the model's matrices.
void write_adapter(const std::filesystem::path& directory, const ModelConfig& config, const Adapter& adapter,
                   const AdapterInfo& info);

}  // namespace folio::core
