// llama2.c's model files (https://github.com/karpathy/llama2.c, export.py): a header of seven int32, then the weights,
// grouped by role across all layers. Version 0 has no magic number and includes RoPE tables. Versions 1 and 2 have a
// 256-byte header that begins with "ak42"; version 2 stores matrices as int8 in groups with one float scale each.
// llama2.c fixes rope_theta at 10000 and norm_eps at 1e-5. The files contain no tokenizer.
#pragma once

#include <filesystem>

#include "core/weights.h"

namespace folio::core {

/// Reads a file of any version. Tensors of versions 0 and 1 are views of the mapped file; version 2 is dequantized to
/// floats. Throws Error unless the file has exactly the length that its header implies.
[[nodiscard]] StoredModel read_llama2c(const std::filesystem::path& path);

/// Writes F32 tensors, given in manifest order, atomically as version 0, 1 or 2. Throws Error if llama2.c cannot
/// represent the configuration, for example because of rope_theta or norm_eps.
void write_llama2c(const std::filesystem::path& path, const ModelConfig& config, const TensorStream& stream,
                   int version);

/// Returns the group size for version 2: 64, halved until it divides dim and hidden_dim.
[[nodiscard]] int32_t llama2c_group_size(const ModelConfig& config);

}  // namespace folio::core
