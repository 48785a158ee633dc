// llama.cpp's adapter format: a GGUF with tensors blk.N.NAME.weight.lora_a (rank, k) and .lora_b (n_out, rank), the
// rows of B in the order of the model's GGUF, and one alpha, which determines every tensor's scale. Defined by
// convert_lora_to_gguf.py and llama-adapter.cpp (https://github.com/ggml-org/llama.cpp).
#pragma once

#include <filesystem>
#include <string>

#include "core/adapter.h"

namespace folio::core {

/// Reads an adapter for a model with this configuration and multiplies its scale by `factor`. As in llama.cpp, the
/// scale is alpha / rank, or 1 if alpha is missing or 0. Throws Error if something is missing, has the wrong shape or
/// is not supported. Supports linear layers of the blocks, up to rank kMaxAdapterRank, without invocation tokens.
[[nodiscard]] Adapter read_gguf_adapter(const std::filesystem::path& path, const ModelConfig& config,
                                        float factor = 1.0F);

/// Writes the adapter atomically to `path`, converted to `type` (F32, F16 or BF16), for a model with this
/// configuration. Throws Error if a part differs from `info` in rank, scale or targets, if the scale is 0, which the
/// format cannot store, or if a value is too large for the type.
void write_gguf_adapter(const std::filesystem::path& path, const ModelConfig& config, const Adapter& adapter,
                        const AdapterInfo& info, DType type, const std::string& name);

}  // namespace folio::core
