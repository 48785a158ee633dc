// llama2.c's model files (https://github.com/karpathy/llama2.c, export.py): a header of seven int32, then the weights,
// role by role over all layers. Version 0 has no magic number and contains RoPE's tables. Versions 1 and 2 have a
// header of 256 bytes that begins with "ak42"; version 2 stores matrices as int8 in groups with a float scale each.
// llama2.c fixes rope_theta at 10000 and norm_eps at 1e-5. Its model files contain no tokenizer.
#pragma once

#include <filesystem>

#include "core/weights.h"

namespace folio::core {

/// Reads any version. Versions 0 and 1 are views of the mapped file; version 2 is dequantized to floats.
/// Throws Error unless the file has exactly the length that follows from its header.
[[nodiscard]] StoredModel read_llama2c(const std::filesystem::path& path);

/// Writes F32 tensors, in the manifest's order, as version 0, 1 or 2, atomically.
/// Throws Error if rope_theta or norm_eps differ from llama2.c's.
void write_llama2c(const std::filesystem::path& path, const ModelConfig& config, const TensorStream& stream,
                   int version);

/// Version 2's group size: 64, halved until it divides dim and hidden_dim.
[[nodiscard]] int32_t llama2c_group_size(const ModelConfig& config);

}  // namespace folio::core
