// Quantizes to block types with 32 elements. quantize_k.cpp does so for 256 elements; quants.cpp describes the layouts.
#include "core/quantize.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "core/error.h"
#include "core/quantize_k.h"

namespace folio::core {
namespace {

using Levels = std::array<uint8_t, 32>;

// Returns 1 / scale, or 0 for a scale of 0. If the quotient overflows, the scale is stored as zero in half precision,
// and finite_or_zero() makes all quants of the block 0.
float inverse(float scale) { return scale == 0.0F ? 0.0F : 1.0F / scale; }
float finite_or_zero(float value) { return std::isfinite(value) ? value : 0.0F; }

void quantize_q8_0(const BlockSource& source, std::span<const float> x, std::byte* block) {
  float largest = 0.0F;
  for (const float v : x) largest = std::max(largest, std::abs(v));
  const float scale = largest / 127.0F;
  const float by = inverse(scale);
  source.put_half(block, scale);
  for (size_t i = 0; i < x.size(); ++i) {
    block[2 + i] = static_cast<std::byte>(static_cast<int8_t>(std::round(finite_or_zero(x[i] * by))));
  }
}

// Returns the quants of a block: level(x), truncated to an integer and clamped to [0, top].
template <typename Level>
Levels levels_of(std::span<const float> x, float top, Level&& level) {
  Levels levels;
  for (size_t i = 0; i < levels.size(); ++i) {
    levels[i] = static_cast<uint8_t>(std::clamp(std::trunc(finite_or_zero(level(x[i]))), 0.0F, top));
  }
  return levels;
}

// Writes a block's scale and returns its quants. The first value of largest magnitude gets quant 0, which means
// -middle * scale. In a block of zeros, `zero` (+0 or -0) sets the scale's sign, on which llama.cpp and gguf differ.
Levels put_symmetric(const BlockSource& source, std::span<const float> x, std::byte* block, float middle, float zero) {
  float extreme = zero;
  for (const float v : x) {
    if (std::abs(v) > std::abs(extreme)) extreme = v;
  }
  const float scale = extreme / -middle;
  const float by = inverse(scale);
  source.put_half(block, scale);
  return levels_of(x, 2 * middle - 1, [&](float v) { return v * by + (middle + 0.5F); });
}

// Writes a block's scale and minimum and returns its quants, 0 to `top`. If +0 and -0 are both the minimum or maximum,
// uses the first of them, as llama.cpp does, or, if `last` is true, the last of them, as Python's gguf package does on
// some CPUs.
Levels put_affine(const BlockSource& source, std::span<const float> x, std::byte* block, float top, bool last) {
  float low = x[0];
  float high = x[0];
  for (const float v : x) {
    if (v < low || (last && v == low)) low = v;
    if (v > high || (last && v == high)) high = v;
  }
  const float scale = (high - low) / top;
  const float by = inverse(scale);
  source.put_half(block, scale);
  source.put_half(block + 2, low);
  return levels_of(x, top, [&](float v) { return (v - low) * by + 0.5F; });
}

void put_nibbles(const Levels& levels, std::byte* packed) {
  for (size_t i = 0; i < 16; ++i) {
    packed[i] = static_cast<std::byte>((levels[i] & 0x0FU) | ((levels[i + 16] & 0x0FU) << 4U));
  }
}

void put_fifth_bits(const Levels& levels, std::byte* word) {
  uint32_t bits = 0;
  for (size_t i = 0; i < levels.size(); ++i) bits |= static_cast<uint32_t>(levels[i] >> 4U) << i;
  std::memcpy(word, &bits, sizeof bits);
}

void quantize_q4_0(const BlockSource& source, std::span<const float> x, std::byte* block) {
  put_nibbles(put_symmetric(source, x, block, 8.0F, x[0] == 0.0F ? x[0] : 0.0F), block + 2);
}

void quantize_q4_1(const BlockSource& source, std::span<const float> x, std::byte* block) {
  put_nibbles(put_affine(source, x, block, 15.0F, true), block + 4);
}

void quantize_q5_0(const BlockSource& source, std::span<const float> x, std::byte* block) {
  const Levels levels = put_symmetric(source, x, block, 16.0F, 0.0F);
  put_fifth_bits(levels, block + 2);
  put_nibbles(levels, block + 6);
}

void quantize_q5_1(const BlockSource& source, std::span<const float> x, std::byte* block) {
  const Levels levels = put_affine(source, x, block, 31.0F, false);
  put_fifth_bits(levels, block + 4);
  put_nibbles(levels, block + 8);
}

struct Writer {
  DType type;
  void (*write)(const BlockSource& source, std::span<const float> x, std::byte* block);
};

constexpr std::array kWriters{
    Writer{DType::Q8_0, quantize_q8_0}, Writer{DType::Q4_0, quantize_q4_0}, Writer{DType::Q4_1, quantize_q4_1},
    Writer{DType::Q5_0, quantize_q5_0}, Writer{DType::Q5_1, quantize_q5_1}, Writer{DType::Q4_K, quantize_q4_k},
    Writer{DType::Q5_K, quantize_q5_k}, Writer{DType::Q6_K, quantize_q6_k},
};

}  // namespace

std::vector<std::byte> quantize(DType type, std::span<const float> values, const std::string& name) {
  const DTypeInfo& t = info(type);
  const auto* const writer = std::ranges::find(kWriters, type, &Writer::type);
  require(writer != kWriters.end(),
          "tensor {} cannot be written as {} (supported: Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K and Q6_K)", name,
          t.name);
  require(values.size() % t.block_elements == 0,
          "tensor {} has {} elements, which is not a multiple of the block size {}", name, values.size(),
          t.block_elements);
  for (const float v : values) {
    require(std::isfinite(v), "tensor {} contains {}, which {} cannot store; use --type f32", name, v, t.name);
  }
  std::vector<std::byte> blocks(values.size() / t.block_elements * t.block_bytes);
  for (size_t b = 0; b * t.block_elements < values.size(); ++b) {
    writer->write({name, type}, values.subspan(b * t.block_elements, t.block_elements),
                  blocks.data() + b * t.block_bytes);
  }
  return blocks;
}

}  // namespace folio::core
