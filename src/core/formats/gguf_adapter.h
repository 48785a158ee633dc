// An adapter as llama.cpp stores it: a GGUF with the tensors blk.N.NAME.weight.lora_a (rank, k) and .lora_b
// (n_out, rank), the rows of B in the order of the model's GGUF, and one alpha, from which each tensor's scale follows.
// The format is convert_lora_to_gguf.py's and llama-adapter.cpp's (https://github.com/ggml-org/llama.cpp).
#pragma once

#include <filesystem>
#include <string>

#include "core/adapter.h"

namespace folio::core {

/// The adapter in the file for a model of this configuration, its scale times `factor`. As in llama.cpp, the scale is
/// alpha / rank, or 1 if alpha is missing or 0. Throws Error that says what is missing, is of another shape than the
/// model's, or is not supported: only linear layers of the blocks, no norms, no invocation tokens, ranks up to
/// kMaxAdapterRank.
[[nodiscard]] Adapter read_gguf_adapter(const std::filesystem::path& path, const ModelConfig& config,
                                        float factor = 1.0F);

/// Writes the adapter atomically to `path`, its numbers as `type` (F32, F16 or BF16), for a model of this
/// configuration. Throws Error unless the parts have the info's rank, scale and targets, if the scale is 0, which the
/// format can't say, and if a number is too large for the type.
void write_gguf_adapter(const std::filesystem::path& path, const ModelConfig& config, const Adapter& adapter,
                        const AdapterInfo& info, DType type, const std::string& name);

}  // namespace folio::core
