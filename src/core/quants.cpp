// Unpacks blocks. In the layouts below, byte i of a run of n bytes of nibbles has element i of the run in its low half
// and element i + n in its high half; n is 16, 32 (Q4_K, Q5_K) or 64 (Q6_K). Everything is little-endian.
#include "core/quants.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "core/float16.h"

namespace folio::core {
namespace {

constexpr size_t kSmallBlock = 32;
constexpr size_t kLargeBlock = 256;  // elements of a block of a K type

// Pointers to one block's outputs in the spans of StoredGroups; null for a field that the type lacks.
struct BlockFields {
  uint8_t* quants;
  uint16_t* factors;
  uint16_t* minimum_factors;
  uint8_t* scales;
  uint8_t* minimums;
};

uint16_t half_at(const uint8_t* at) {
  uint16_t bits;
  std::memcpy(&bits, at, sizeof bits);
  return bits;
}

// Unpacks n bytes to 2n quants: all low nibbles, then all high nibbles.
template <size_t n>
void split_nibbles(const uint8_t* packed, uint8_t* quants) {
  for (size_t i = 0; i < n; ++i) quants[i] = packed[i] & 0x0FU;
  for (size_t i = 0; i < n; ++i) quants[n + i] = packed[i] >> 4U;
}

// Layout of Q8_0: scale (F16), 32 signed bytes.
void unpack_q8_0(const uint8_t* block, BlockFields out) {
  *out.factors = half_at(block);
  for (size_t i = 0; i < kSmallBlock; ++i) out.quants[i] = block[2 + i] ^ 0x80U;  // adds 128 to a signed byte
}

// Layout of Q4_0: scale (F16), nibbles.
void unpack_q4_0(const uint8_t* block, BlockFields out) {
  *out.factors = half_at(block);
  split_nibbles<16>(block + 2, out.quants);
}

// Layout of Q4_1: scale and minimum (F16), nibbles.
void unpack_q4_1(const uint8_t* block, BlockFields out) {
  *out.factors = half_at(block);
  *out.minimum_factors = half_at(block + 2);
  split_nibbles<16>(block + 4, out.quants);
}

// Adds the fifth bits of 32 quants, which are packed in a 32-bit word.
void add_fifth_bits(const uint8_t* word, uint8_t* quants) {
  uint32_t bits;
  std::memcpy(&bits, word, sizeof bits);
  for (size_t i = 0; i < kSmallBlock; ++i) quants[i] |= static_cast<uint8_t>(((bits >> i) & 1U) << 4U);
}

// Layout of Q5_0: scale (F16), fifth bits, nibbles.
void unpack_q5_0(const uint8_t* block, BlockFields out) {
  *out.factors = half_at(block);
  split_nibbles<16>(block + 6, out.quants);
  add_fifth_bits(block + 2, out.quants);
}

// Layout of Q5_1: scale and minimum (F16), fifth bits, nibbles.
void unpack_q5_1(const uint8_t* block, BlockFields out) {
  *out.factors = half_at(block);
  *out.minimum_factors = half_at(block + 2);
  split_nibbles<16>(block + 8, out.quants);
  add_fifth_bits(block + 4, out.quants);
}

// Unpacks the beginning of Q4_K and Q5_K blocks: two F16 factors, and eight 6-bit scales and minimums in twelve bytes.
// Bytes 0 to 7 hold scales and minimums 0 to 3 and, in their upper two bits, the upper bits of scales and minimums 4 to
// 7. Bytes 8 to 11 hold the low four bits of scales and minimums 4 to 7.
void unpack_k_scales(const uint8_t* block, BlockFields out) {
  *out.factors = half_at(block);
  *out.minimum_factors = half_at(block + 2);
  const uint8_t* packed = block + 4;
  for (size_t g = 0; g < 4; ++g) {
    out.scales[g] = packed[g] & 0x3FU;
    out.minimums[g] = packed[4 + g] & 0x3FU;
    out.scales[4 + g] = static_cast<uint8_t>((packed[8 + g] & 0x0FU) | ((packed[g] >> 2U) & 0x30U));
    out.minimums[4 + g] = static_cast<uint8_t>((packed[8 + g] >> 4U) | ((packed[4 + g] >> 2U) & 0x30U));
  }
}

// Layout of Q4_K: 16 bytes of factors, scales and minimums, then 32 bytes of nibbles for each 64 elements.
void unpack_q4_k(const uint8_t* block, BlockFields out) {
  unpack_k_scales(block, out);
  for (size_t i = 0; i < 4; ++i) split_nibbles<32>(block + 16 + 32 * i, out.quants + 64 * i);
}

// Layout of Q5_K: 16 bytes as in Q4_K, 32 bytes of fifth bits (bit g of byte j belongs to element j of group g),
// nibbles as in Q4_K.
void unpack_q5_k(const uint8_t* block, BlockFields out) {
  unpack_k_scales(block, out);
  for (size_t i = 0; i < 4; ++i) split_nibbles<32>(block + 48 + 32 * i, out.quants + 64 * i);
  for (size_t i = 0; i < kLargeBlock; ++i) {
    out.quants[i] |= static_cast<uint8_t>(((block[16 + i % 32] >> (i / 32)) & 1U) << 4U);
  }
}

// Layout of Q6_K: low nibbles, upper bit pairs, sixteen int8 scales, their factor (F16). Each half of the elements has
// 64 bytes of nibbles and 32 bytes of bit pairs; byte j of the pairs belongs to elements j, j + 32, j + 64 and j + 96.
void unpack_q6_k(const uint8_t* block, BlockFields out) {
  *out.factors = half_at(block + 208);
  std::copy_n(block + 192, 16, out.scales);
  for (size_t half = 0; half < 2; ++half) {
    uint8_t* quants = out.quants + half * 128;
    split_nibbles<64>(block + half * 64, quants);
    const uint8_t* upper = block + 128 + half * 32;
    for (size_t j = 0; j < 128; ++j) {
      quants[j] |= static_cast<uint8_t>(((upper[j % 32] >> (j / 32 * 2)) & 3U) << 4U);
    }
  }
}

// Layout of MXFP4: the scale (E8M0), nibbles.
void unpack_mxfp4(const uint8_t* block, BlockFields out) {
  *out.scales = *block;
  split_nibbles<16>(block + 1, out.quants);
}

struct Format {
  QuantInfo info;
  void (*unpack)(const uint8_t* block, BlockFields out);
};

constexpr std::array kFormats{
    Format{{DType::Q8_0, 32, 8, 128, false, false}, unpack_q8_0},
    Format{{DType::Q4_0, 32, 4, 8, false, false}, unpack_q4_0},
    Format{{DType::Q4_1, 32, 4, 0, true, false}, unpack_q4_1},
    Format{{DType::Q5_0, 32, 5, 16, false, false}, unpack_q5_0},
    Format{{DType::Q5_1, 32, 5, 0, true, false}, unpack_q5_1},
    Format{{DType::Q4_K, 32, 4, 0, true, true}, unpack_q4_k},
    Format{{DType::Q5_K, 32, 5, 0, true, true}, unpack_q5_k},
    Format{{DType::Q6_K, 16, 6, 32, false, true}, unpack_q6_k},
    Format{{DType::MXFP4, 32, 4, 16, false, true, true}, unpack_mxfp4},
};

const Format* find_format(DType type) {
  const auto* found =
      std::find_if(kFormats.begin(), kFormats.end(), [&](const Format& f) { return f.info.type == type; });
  return found == kFormats.end() ? nullptr : found;
}

const Format& format_of(DType type) {
  const Format* format = find_format(type);
  require(format != nullptr, "{} is not a supported block type", info(type).name);
  return *format;
}

// Unpacks the first block of `blocks` to one quant per element, and one scale and, if the type has them, one minimum
// per group.
void unpack_block(const Format& format, std::span<const std::byte> blocks, uint8_t* quants, float* scales,
                  float* minimums) {
  const QuantInfo& q = format.info;
  const size_t n = info(q.type).block_elements;
  uint16_t scale_factor = 0;
  uint16_t minimum_factor = 0;
  std::array<uint8_t, kLargeBlock / 16> small_scales{};
  std::array<uint8_t, kLargeBlock / 16> small_minimums{};
  format.unpack(reinterpret_cast<const uint8_t*>(blocks.data()),
                {quants, &scale_factor, &minimum_factor, small_scales.data(), small_minimums.data()});
  if (q.fp4) {
    for (size_t i = 0; i < n; ++i) quants[i] = kFp4Quants[quants[i]];
    *scales = half_scale_of(small_scales[0]);
    return;
  }
  const float scale = f16_to_float(scale_factor);
  const float minimum = f16_to_float(minimum_factor);
  for (size_t g = 0; g < n / q.group; ++g) {
    const int small = q.minimums ? small_scales[g] : static_cast<int8_t>(small_scales[g]);
    scales[g] = q.byte_scales ? scale * static_cast<float>(small) : scale;
    if (q.minimums) minimums[g] = q.byte_scales ? -(minimum * static_cast<float>(small_minimums[g])) : minimum;
  }
}

}  // namespace

const QuantInfo* quant_info(DType type) {
  const Format* format = find_format(type);
  return format == nullptr ? nullptr : &format->info;
}

void unpack(DType type, std::span<const std::byte> blocks, const StoredGroups& out) {
  const Format& format = format_of(type);
  const QuantInfo& q = format.info;
  const DTypeInfo& t = info(type);
  const size_t n = blocks.size() / t.block_bytes;
  const size_t groups = t.block_elements / q.group;
  const auto* block = reinterpret_cast<const uint8_t*>(blocks.data());
  for (size_t b = 0; b < n; ++b) {
    format.unpack(block + b * t.block_bytes,
                  {.quants = out.quants.data() + b * t.block_elements,
                   .factors = q.fp4 ? nullptr : out.factors.data() + b,
                   .minimum_factors = q.minimums ? out.minimum_factors.data() + b : nullptr,
                   .scales = q.byte_scales ? out.scales.data() + b * groups : nullptr,
                   .minimums = q.byte_scales && q.minimums ? out.minimums.data() + b * groups : nullptr});
  }
}

void unpack(DType type, std::span<const std::byte> blocks, std::span<uint8_t> quants, std::span<float> scales,
            std::span<float> minimums) {
  const Format& format = format_of(type);
  const DTypeInfo& t = info(type);
  const size_t groups = t.block_elements / format.info.group;
  for (size_t b = 0; b < blocks.size() / t.block_bytes; ++b) {
    unpack_block(format, blocks.subspan(b * t.block_bytes), quants.data() + b * t.block_elements,
                 scales.data() + b * groups, minimums.empty() ? nullptr : minimums.data() + b * groups);
  }
}

void dequantize(DType type, std::span<const std::byte> blocks, std::span<float> values) {
  const Format& format = format_of(type);
  const QuantInfo& q = format.info;
  const DTypeInfo& t = info(type);
  std::array<uint8_t, kLargeBlock> quants{};
  std::array<float, kLargeBlock / 16> scales{};
  std::array<float, kLargeBlock / 16> minimums{};
  const size_t groups = t.block_elements / q.group;
  for (size_t b = 0; b * t.block_elements < values.size(); ++b) {
    unpack_block(format, blocks.subspan(b * t.block_bytes), quants.data(), scales.data(), minimums.data());
    float* out = values.data() + b * t.block_elements;
    for (size_t g = 0; g < groups; ++g) {
      const uint8_t* of_group = quants.data() + g * q.group;
      for (size_t i = 0; i < q.group; ++i) {
        out[g * q.group + i] = scales[g] * static_cast<float>(of_group[i] - q.zero_point);
      }
      if (!q.minimums) continue;
      for (size_t i = 0; i < q.group; ++i) out[g * q.group + i] += minimums[g];
    }
  }
}

}  // namespace folio::core
