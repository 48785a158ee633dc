// llama2.c's model files (https://github.com/karpathy/llama2.c, export.py): a header of seven int32, then the weights,
// role by role over all layers. Version 0 has no magic number and holds RoPE's tables; 1 and 2 begin with "ak42" and a
// header of 256 bytes; 2 holds the matrices as int8 in groups with a float scale each.
// The program fixes rope_theta at 10000 and norm_eps at 1e-5, and the files have no tokenizer in them.
#pragma once

#include <filesystem>

#include "core/weights.h"

namespace folio::core {

/// Reads any version. Versions 0 and 1 are views of the mapping; version 2 is multiplied out into floats.
/// Throws Error if the header's numbers and the file's length don't fit together to the byte.
[[nodiscard]] StoredModel read_llama2c(const std::filesystem::path& path);

/// Writes F32 tensors, which are in the manifest's order, atomically as version 0, 1 or 2.
/// Throws Error for another rope_theta or norm_eps than llama2.c's.
void write_llama2c(const std::filesystem::path& path, const ModelConfig& config, const TensorStream& stream,
                   int version);

/// Version 2's group size: 64, halved until it divides dim and hidden_dim.
[[nodiscard]] int32_t llama2c_group_size(const ModelConfig& config);

}  // namespace folio::core
