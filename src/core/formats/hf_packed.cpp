#include "core/formats/hf_packed.h"

#include <algorithm>

namespace folio::core {
namespace {

// Calls body(ours, theirs) for each element, with its indices in the tensor `spec` and in the Hugging Face tensor.
template <typename Body>
void for_elements(const TensorSpec& spec, Body&& body) {
  const auto experts = static_cast<size_t>(spec.shape[0]), out = static_cast<size_t>(spec.shape[1]);
  const size_t in = spec.is_stack() ? static_cast<size_t>(spec.shape[2]) : 1;
  const auto& [name, shape, first, steps, last] = spec.hf_packed;
  for (size_t e = 0; e < experts; ++e) {
    for (size_t r = 0; r < out; ++r) {
      const size_t row =
          static_cast<size_t>(first) + e * static_cast<size_t>(steps[0]) + r * static_cast<size_t>(steps[1]);
      for (size_t c = 0; c < in; ++c) body((e * out + r) * in + c, row + c * static_cast<size_t>(steps[2]));
    }
  }
}

}  // namespace

std::vector<std::byte> unpack_hf(const TensorSpec& spec, std::span<const std::byte> packed, size_t size) {
  std::vector<std::byte> bytes(static_cast<size_t>(spec.elements()) * size);
  for_elements(spec,
               [&](size_t ours, size_t theirs) { std::copy_n(&packed[theirs * size], size, &bytes[ours * size]); });
  return bytes;
}

void pack_hf(const TensorSpec& spec, std::span<const std::byte> bytes, size_t size, std::span<std::byte> packed) {
  for_elements(spec,
               [&](size_t ours, size_t theirs) { std::copy_n(&bytes[ours * size], size, &packed[theirs * size]); });
}

std::vector<std::byte> unpack_mxfp4(const TensorSpec& spec, std::span<const std::byte> quants,
                                    std::span<const std::byte> scales) {
  constexpr size_t kHalf = 16;  // bytes of quants in a block; each byte has two elements
  const auto experts = static_cast<size_t>(spec.shape[0]), out = static_cast<size_t>(spec.shape[1]);
  const size_t blocks = static_cast<size_t>(spec.shape[2]) / (2 * kHalf);
  const auto first = static_cast<size_t>(spec.hf_packed.first), step = static_cast<size_t>(spec.hf_packed.steps[1]);
  std::vector<std::byte> bytes;
  bytes.reserve(experts * out * blocks * (1 + kHalf));
  for (size_t e = 0; e < experts; ++e) {
    for (size_t r = 0; r < out; ++r) {
      const size_t row = ((e * out + r) * step + first) * blocks;
      for (size_t b = row; b < row + blocks; ++b) {
        const auto block = quants.subspan(b * kHalf, kHalf);
        const auto element = [&](size_t i) { return block[i / 2] >> (i % 2 * 4) & std::byte{0x0F}; };
        bytes.push_back(scales[b]);
        for (size_t i = 0; i < kHalf; ++i) bytes.push_back(element(i) | element(i + kHalf) << 4);
      }
    }
  }
  return bytes;
}

}  // namespace folio::core
