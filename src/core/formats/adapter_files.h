// The two file formats of adapters. peft (https://github.com/huggingface/peft): a directory of adapter_config.json and
// adapter_model.safetensors. llama.cpp (convert_lora_to_gguf.py and llama-adapter.cpp in
// https://github.com/ggml-org/llama.cpp): a GGUF with tensors blk.N.NAME.weight.lora_a (rank, k) and .lora_b
// (n_out, rank), and one alpha, which determines every scale. The rows of B are in the order of the model's GGUF.
#pragma once

#include <filesystem>
#include <string>

#include "core/adapter.h"

namespace folio::core {

/// Reads an adapter for a model with this configuration, with read_gguf_adapter if `path` is a file, otherwise with
/// read_peft_adapter. Multiplies the adapter's scale by `factor`. Throws Error if the adapter is invalid, unsupported,
/// or doesn't fit the model.
[[nodiscard]] Adapter read_adapter(const std::filesystem::path& path, const ModelConfig& config, float factor = 1.0F);

/// Reads an adapter for a model with this configuration and multiplies its scale by `factor`. Throws Error if something
/// is missing, has the wrong shape or is not supported. Supports linear layers of the blocks, without biases or
/// DoRA, up to rank kMaxAdapterRank. rank_pattern and alpha_pattern may override rank and alpha of single modules.
[[nodiscard]] Adapter read_peft_adapter(const std::filesystem::path& directory, const ModelConfig& config,
                                        float factor = 1.0F);

/// Returns the settings of a peft adapter, except `targets`, which roles_of() the read adapter returns. Throws Error if
/// they are invalid or not supported.
[[nodiscard]] AdapterInfo read_adapter_info(const std::filesystem::path& directory);

/// Writes adapter_config.json and adapter_model.safetensors (F32) into an existing directory, each atomically, as
/// peft's save_pretrained does. `config` describes the base model. Throws Error unless all parts have the rank and
/// scale of `info` and fit the base model's matrices.
void write_adapter(const std::filesystem::path& directory, const ModelConfig& config, const Adapter& adapter,
                   const AdapterInfo& info);

/// Reads an adapter for a model with this configuration and multiplies its scale by `factor`. As in llama.cpp, the
/// scale is alpha / rank, or 1 if alpha is missing or 0. Throws Error if something is missing, has the wrong shape or
/// is not supported. Supports linear layers of the blocks, up to rank kMaxAdapterRank, without invocation tokens.
[[nodiscard]] Adapter read_gguf_adapter(const std::filesystem::path& path, const ModelConfig& config,
                                        float factor = 1.0F);

/// Writes the adapter atomically to `path`, converted to `type` (F32, F16 or BF16), for a model with this
/// configuration. Throws Error if a part differs from `info` in rank or scale, if the scale is 0, which the
/// format cannot store, or if a value is too large for the type.
void write_gguf_adapter(const std::filesystem::path& path, const ModelConfig& config, const Adapter& adapter,
                        const AdapterInfo& info, DType type, const std::string& name);

}  // namespace folio::core
