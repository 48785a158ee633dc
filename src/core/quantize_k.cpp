#include "core/quantize_k.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "core/error.h"
#include "core/float16.h"
#include "core/scale_search.h"

namespace folio::core {
namespace {

constexpr size_t kBlock = 256;
using Levels = std::array<uint8_t, kBlock>;

// Returns four groups of n elements with one group per lane.
template <size_t n>
LaneGroups<n> side_by_side(const float* x) {
  LaneGroups<n> groups;
  for (size_t i = 0; i < n; ++i) groups[i] = Lanes{x[i], x[n + i], x[2 * n + i], x[3 * n + i]};
  return groups;
}

template <size_t n>
void put_apart(const std::array<IntLanes, n>& groups, uint8_t* levels) {
  for (size_t g = 0; g < kLanes; ++g) {
    for (size_t i = 0; i < n; ++i) levels[g * n + i] = static_cast<uint8_t>(groups[i][g]);
  }
}

float stored_half(const std::byte* at) {
  uint16_t bits;
  std::memcpy(&bits, at, sizeof bits);
  return f16_to_float(bits);
}

// Quantizes eight values to [0, 63], where `largest` becomes 63. Negative results wrap around, as in llama.cpp.
std::array<uint8_t, 8> six_bits(const std::array<float, 8>& values, float largest) {
  const float by = largest > 0.0F ? 63.0F / largest : 0.0F;
  std::array<uint8_t, 8> bits{};
  for (size_t g = 0; g < 8; ++g) {
    const IntLanes integer = nearest(Lanes{} + by * values[g], INT32_MIN, INT32_MAX);
    bits[g] = std::min<uint8_t>(static_cast<uint8_t>(integer[0]), 63);
  }
  return bits;
}

// Packs eight scales and eight minimums of 6 bits into twelve bytes, in the layout of unpack_k_scales() (quants.cpp).
void put_six_bits(const std::array<uint8_t, 8>& scales, const std::array<uint8_t, 8>& minimums, std::byte* packed) {
  const auto put = [&](size_t at, unsigned low, unsigned high) { packed[at] = static_cast<std::byte>(low | high); };
  for (size_t g = 0; g < 4; ++g) {
    put(g, scales[g], (scales[g + 4] >> 4U) << 6U);
    put(g + 4, minimums[g], (minimums[g + 4] >> 4U) << 6U);
    put(g + 8, scales[g + 4] & 0x0FU, (minimums[g + 4] & 0x0FU) << 4U);
  }
}

// Writes the beginning of a Q4_K or Q5_K block (two factors, scales and minimums) and returns the block's quants.
Levels put_affine(const BlockSource& source, std::span<const float> x, std::byte* block, const AffineSearch& search) {
  std::array<LaneGroups<32>, 2> groups;
  std::array<AffineFit, 2> fits;
  std::array<float, 8> scales{};
  std::array<float, 8> minimums{};
  for (size_t half = 0; half < 2; ++half) {
    groups[half] = side_by_side<32>(x.data() + half * 128);
    fits[half] = fit_affine(groups[half], search);
    for (size_t g = 0; g < kLanes; ++g) {
      scales[half * kLanes + g] = fits[half].scale[g];
      minimums[half * kLanes + g] = -fits[half].low[g];
    }
  }
  const float largest_scale = std::max(0.0F, *std::ranges::max_element(scales));
  const float largest_minimum = std::max(0.0F, *std::ranges::max_element(minimums));
  const auto scale_bits = six_bits(scales, largest_scale);
  const auto minimum_bits = six_bits(minimums, largest_minimum);
  source.put_half(block, largest_scale / 63.0F);
  source.put_half(block + 2, largest_minimum / 63.0F);
  put_six_bits(scale_bits, minimum_bits, block + 4);

  // Recomputes the quants with the stored scales and minimums, which are rounded.
  Levels levels;
  const float d = stored_half(block);
  const float dmin = stored_half(block + 2);
  for (size_t half = 0; half < 2; ++half) {
    Lanes scale;
    Lanes minimum;
    for (size_t g = 0; g < kLanes; ++g) {
      scale[g] = d * static_cast<float>(scale_bits[half * kLanes + g]);
      minimum[g] = dmin * static_cast<float>(minimum_bits[half * kLanes + g]);
    }
    const AffineFit& fit = fits[half];
    std::array<IntLanes, 32> integers;
    for (size_t i = 0; i < 32; ++i) {
      const Lanes v = groups[half][i];
      integers[i] = nearest(scale != 0.0F ? (v + minimum) / scale : fit.by * (v - fit.from), 0, search.top);
    }
    put_apart(integers, levels.data() + half * 128);
  }
  return levels;
}

// Packs the low four bits of the quants, 64 at a time: the first 32 in low nibbles, the next 32 in high nibbles.
void put_nibbles_of_64(const Levels& levels, std::byte* packed) {
  for (size_t i = 0; i < kBlock / 2; ++i) {
    const size_t at = i / 32 * 64 + i % 32;
    packed[i] = static_cast<std::byte>((levels[at] & 0x0FU) | ((levels[at + 32] & 0x0FU) << 4U));
  }
}

}  // namespace

void BlockSource::put_half(std::byte* at, float value) const {
  const uint16_t bits = float_to_f16(value);
  require(std::isfinite(f16_to_float(bits)),
          "tensor {} contains values that are too large for the scales of {}; use --type bf16 or f32", name,
          info(type).name);
  std::memcpy(at, &bits, sizeof bits);
}

void quantize_q4_k(const BlockSource& source, std::span<const float> x, std::byte* block) {
  const Levels levels = put_affine(source, x, block, {.top = 15, .first = -1.0F, .last = 20});
  put_nibbles_of_64(levels, block + 16);
}

void quantize_q5_k(const BlockSource& source, std::span<const float> x, std::byte* block) {
  const Levels levels = put_affine(source, x, block, {.top = 31, .first = -0.5F, .last = 15});
  for (size_t j = 0; j < 32; ++j) {
    unsigned fifth = 0;
    for (size_t g = 0; g < 8; ++g) fifth |= (levels[g * 32 + j] >> 4U) << g;
    block[16 + j] = static_cast<std::byte>(fifth);
  }
  put_nibbles_of_64(levels, block + 48);
}

void quantize_q6_k(const BlockSource& source, std::span<const float> x, std::byte* block) {
  std::array<LaneGroups<16>, 4> groups;
  std::array<SymmetricFit, 4> fits;
  float extreme = 0.0F;  // first scale of largest magnitude
  for (size_t quarter = 0; quarter < 4; ++quarter) {
    groups[quarter] = side_by_side<16>(x.data() + quarter * 64);
    fits[quarter] = fit_symmetric(groups[quarter]);
    for (size_t g = 0; g < kLanes; ++g) {
      const float scale = fits[quarter].scale[g];
      if (!std::isfinite(scale)) source.put_half(block, scale);  // put_half() throws Error
      if (std::abs(scale) > std::abs(extreme)) extreme = scale;
    }
  }
  std::memset(block, 0, info(DType::Q6_K).block_bytes);
  if (std::abs(extreme) < kNearlyZero) return;

  const float by = -128.0F / extreme;
  source.put_half(block + 208, 1.0F / by);
  const float d = stored_half(block + 208);
  Levels levels;
  for (size_t quarter = 0; quarter < 4; ++quarter) {
    const SymmetricFit& fit = fits[quarter];
    const IntLanes scale_levels = nearest(by * fit.scale, INT32_MIN, 127);
    for (size_t g = 0; g < kLanes; ++g) {
      block[192 + quarter * kLanes + g] = static_cast<std::byte>(scale_levels[g]);
    }
    const Lanes scale = d * __builtin_convertvector(scale_levels, Lanes);
    std::array<IntLanes, 16> integers;
    for (size_t i = 0; i < 16; ++i) {
      const Lanes v = groups[quarter][i];
      const IntLanes found = fit.zero ? IntLanes{} : nearest(fit.by * v, -32, 31) + 32;
      integers[i] = scale != 0.0F ? nearest(v / scale, -32, 31) + 32 : found;
    }
    put_apart(integers, levels.data() + quarter * 64);
  }
  for (size_t half = 0; half < 2; ++half) {
    const uint8_t* l = levels.data() + half * 128;
    for (size_t j = 0; j < 64; ++j) {
      block[half * 64 + j] = static_cast<std::byte>((l[j] & 0x0FU) | ((l[j + 64] & 0x0FU) << 4U));
    }
    for (size_t j = 0; j < 32; ++j) {
      const unsigned upper =
          (l[j] >> 4U) | ((l[j + 32] >> 4U) << 2U) | ((l[j + 64] >> 4U) << 4U) | ((l[j + 96] >> 4U) << 6U);
      block[128 + half * 32 + j] = static_cast<std::byte>(upper);
    }
  }
}

}  // namespace folio::core
