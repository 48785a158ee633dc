// Hugging Face's layout of experts whose matrices are one tensor (gpt-oss): see HfPacked in core/manifest.h.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "core/manifest.h"

namespace folio::core {

/// The tensor `spec`, which has hf_packed, in the manifest's order, out of the bytes of Hugging Face's, whose shape is
/// spec.hf_shape(). A number has `size` bytes.
[[nodiscard]] std::vector<std::byte> unpack_hf(const TensorSpec& spec, std::span<const std::byte> packed, size_t size);

/// The other way: puts it where it is in the bytes of Hugging Face's.
void pack_hf(const TensorSpec& spec, std::span<const std::byte> bytes, size_t size, std::span<std::byte> packed);

/// Of a stack in MXFP4, the blocks as GGUF has them: a scale, then sixteen bytes with elements i and i + 16. `quants`
/// and `scales` are NAME_blocks and NAME_scales.
[[nodiscard]] std::vector<std::byte> unpack_mxfp4(const TensorSpec& spec, std::span<const std::byte> quants,
                                                  std::span<const std::byte> scales);

}  // namespace folio::core
