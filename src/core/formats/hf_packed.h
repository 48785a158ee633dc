// Converts between the manifest's tensors and Hugging Face tensors that contain several of them (HfPacked, manifest.h).
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "core/manifest.h"

namespace folio::core {

/// Returns the bytes of the tensor `spec` in manifest order. `packed` has Hugging Face's order and the shape
/// spec.hf_shape(); an element has `size` bytes. spec.hf_packed must describe that order.
[[nodiscard]] std::vector<std::byte> unpack_hf(const TensorSpec& spec, std::span<const std::byte> packed, size_t size);

/// Copies the bytes of the tensor `spec`, `size` per element in manifest order, into Hugging Face's tensor `packed`.
void pack_hf(const TensorSpec& spec, std::span<const std::byte> bytes, size_t size, std::span<std::byte> packed);

/// Returns the stack `spec` in GGUF's MXFP4 blocks: a scale, then 16 bytes; byte i has the elements i and i + 16.
/// `quants` and `scales` are the tensors NAME_blocks and NAME_scales.
[[nodiscard]] std::vector<std::byte> unpack_mxfp4(const TensorSpec& spec, std::span<const std::byte> quants,
                                                  std::span<const std::byte> scales);

}  // namespace folio::core
