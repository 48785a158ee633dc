// Hugging Face's layout of experts stored as one tensor (gpt-oss): see HfPacked in core/manifest.h.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "core/manifest.h"

namespace folio::core {

/// Returns the bytes of tensor `spec`, which has hf_packed, in manifest order. `packed` has Hugging Face's order and
/// the shape spec.hf_shape(); an element has `size` bytes.
[[nodiscard]] std::vector<std::byte> unpack_hf(const TensorSpec& spec, std::span<const std::byte> packed, size_t size);

/// Copies the bytes of tensor `spec`, in manifest order, to their places in Hugging Face's tensor `packed`.
void pack_hf(const TensorSpec& spec, std::span<const std::byte> bytes, size_t size, std::span<std::byte> packed);

/// Returns the stack `spec` in MXFP4 with GGUF's blocks: a scale, then sixteen bytes that hold elements i and i + 16.
/// `quants` and `scales` are the tensors NAME_blocks and NAME_scales.
[[nodiscard]] std::vector<std::byte> unpack_mxfp4(const TensorSpec& spec, std::span<const std::byte> quants,
                                                  std::span<const std::byte> scales);

}  // namespace folio::core
