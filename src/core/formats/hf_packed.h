// Converts between the manifest's tensors and Hugging Face tensors that contain several of them (HfPacked, manifest.h).
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "core/manifest.h"

namespace folio::core {

/// Copies the tensor `spec` out of the Hugging Face tensor `packed` and returns its elements in row-major order.
/// `packed` has the shape spec.hf_shape() and the layout spec.hf_packed; an element has `size` bytes.
[[nodiscard]] std::vector<std::byte> unpack_hf(const TensorSpec& spec, std::span<const std::byte> packed, size_t size);

/// The inverse of unpack_hf(): copies `bytes`, the row-major tensor `spec` with `size` bytes per element, into the
/// Hugging Face tensor `packed`.
void pack_hf(const TensorSpec& spec, std::span<const std::byte> bytes, size_t size, std::span<std::byte> packed);

/// Converts the stacked tensor `spec` to GGUF's MXFP4 blocks: a scale, then 16 bytes, where byte i has element i in its
/// low half and element i + 16 in its high half. `quants` and `scales` are Hugging Face's NAME_blocks and NAME_scales.
[[nodiscard]] std::vector<std::byte> unpack_mxfp4(const TensorSpec& spec, std::span<const std::byte> quants,
                                                  std::span<const std::byte> scales);

}  // namespace folio::core
