// In each block: d is the scale (F16), m the minimum (F16); nibbles hold element i in their low half, and element i +
// 16 (K types: i + 32) in their high half. All numbers are little-endian.
#include "core/quants.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "core/error.h"
#include "core/float16.h"

namespace folio::core {
namespace {

constexpr size_t kSmallBlock = 32;
constexpr size_t kLargeBlock = 256;  // of the K types

// Where one block's parts go.
struct Groups {
  uint8_t* payload;
  float* scales;
  float* minimums;
};

float half_at(const uint8_t* at) {
  uint16_t bits;
  std::memcpy(&bits, at, sizeof bits);
  return f16_to_float(bits);
}

// 2n payloads from n bytes: the low nibbles, then the high ones.
template <size_t n>
void split_nibbles(const uint8_t* packed, uint8_t* payload) {
  for (size_t i = 0; i < n; ++i) payload[i] = packed[i] & 0x0FU;
  for (size_t i = 0; i < n; ++i) payload[n + i] = packed[i] >> 4U;
}

// d, 32 signed bytes.
void unpack_q8_0(const uint8_t* block, Groups out) {
  *out.scales = half_at(block);
  for (size_t i = 0; i < kSmallBlock; ++i) out.payload[i] = block[2 + i] ^ 0x80U;  // + 128
}

// d, nibbles.
void unpack_q4_0(const uint8_t* block, Groups out) {
  *out.scales = half_at(block);
  split_nibbles<16>(block + 2, out.payload);
}

// d, m, nibbles.
void unpack_q4_1(const uint8_t* block, Groups out) {
  *out.scales = half_at(block);
  *out.minimums = half_at(block + 2);
  split_nibbles<16>(block + 4, out.payload);
}

// The fifth bits of 32 numbers stand in one 32-bit word.
void add_fifth_bits(const uint8_t* word, uint8_t* payload) {
  uint32_t bits;
  std::memcpy(&bits, word, sizeof bits);
  for (size_t i = 0; i < kSmallBlock; ++i) payload[i] |= static_cast<uint8_t>(((bits >> i) & 1U) << 4U);
}

// d, fifth bits, nibbles.
void unpack_q5_0(const uint8_t* block, Groups out) {
  *out.scales = half_at(block);
  split_nibbles<16>(block + 6, out.payload);
  add_fifth_bits(block + 2, out.payload);
}

// d, m, fifth bits, nibbles.
void unpack_q5_1(const uint8_t* block, Groups out) {
  *out.scales = half_at(block);
  *out.minimums = half_at(block + 2);
  split_nibbles<16>(block + 8, out.payload);
  add_fifth_bits(block + 4, out.payload);
}

// Q4_K and Q5_K begin with d, dmin, and eight scales and eight minimums of six bits in twelve bytes. The last four
// bytes hold the low four bits of numbers 4 to 7; their upper two are the upper two of the first eight bytes.
void unpack_k_scales(const uint8_t* block, Groups out) {
  const float d = half_at(block);
  const float dmin = half_at(block + 2);
  const uint8_t* packed = block + 4;
  for (size_t g = 0; g < 8; ++g) {
    uint32_t scale = packed[g % 4] & 0x3FU;
    uint32_t minimum = packed[4 + g % 4] & 0x3FU;
    if (g >= 4) {
      scale = (packed[4 + g] & 0x0FU) | ((packed[g - 4] >> 2U) & 0x30U);
      minimum = (packed[4 + g] >> 4U) | ((packed[g] >> 2U) & 0x30U);
    }
    out.scales[g] = d * static_cast<float>(scale);
    out.minimums[g] = -(dmin * static_cast<float>(minimum));
  }
}

// The scales, then nibbles, 64 numbers at a time.
void unpack_q4_k(const uint8_t* block, Groups out) {
  unpack_k_scales(block, out);
  for (size_t i = 0; i < 4; ++i) split_nibbles<32>(block + 16 + 32 * i, out.payload + 64 * i);
}

// The scales, fifth bits (bit g of byte j: number j of group g), nibbles as above.
void unpack_q5_k(const uint8_t* block, Groups out) {
  unpack_k_scales(block, out);
  for (size_t i = 0; i < 4; ++i) split_nibbles<32>(block + 48 + 32 * i, out.payload + 64 * i);
  for (size_t i = 0; i < kLargeBlock; ++i) {
    out.payload[i] |= static_cast<uint8_t>(((block[16 + i % 32] >> (i / 32)) & 1U) << 4U);
  }
}

// Low nibbles, upper pairs of bits, sixteen int8 scales, d. Half of the block at a time: 64 bytes of nibbles, and of 32
// bytes of pairs byte j holds those of the numbers j + 32 m.
void unpack_q6_k(const uint8_t* block, Groups out) {
  const float d = half_at(block + 208);
  for (size_t g = 0; g < 16; ++g) out.scales[g] = d * static_cast<float>(static_cast<int8_t>(block[192 + g]));
  for (size_t half = 0; half < 2; ++half) {
    uint8_t* payload = out.payload + half * 128;
    split_nibbles<64>(block + half * 64, payload);
    const uint8_t* upper = block + 128 + half * 32;
    for (size_t j = 0; j < 128; ++j) {
      payload[j] |= static_cast<uint8_t>(((upper[j % 32] >> (j / 32 * 2)) & 3U) << 4U);
    }
  }
}

struct Format {
  QuantInfo info;
  void (*unpack)(const uint8_t* block, Groups out);
};

constexpr std::array kFormats{
    Format{{DType::Q8_0, 32, 8, 128, false, true}, unpack_q8_0},
    Format{{DType::Q4_0, 32, 4, 8, false, true}, unpack_q4_0},
    Format{{DType::Q4_1, 32, 4, 0, true, true}, unpack_q4_1},
    Format{{DType::Q5_0, 32, 5, 16, false, true}, unpack_q5_0},
    Format{{DType::Q5_1, 32, 5, 0, true, true}, unpack_q5_1},
    Format{{DType::Q4_K, 32, 4, 0, true, false}, unpack_q4_k},
    Format{{DType::Q5_K, 32, 5, 0, true, false}, unpack_q5_k},
    Format{{DType::Q6_K, 16, 6, 32, false, false}, unpack_q6_k},
};

const Format* find_format(DType type) {
  const auto* found =
      std::find_if(kFormats.begin(), kFormats.end(), [&](const Format& f) { return f.info.type == type; });
  return found == kFormats.end() ? nullptr : found;
}

const Format& format_of(DType type) {
  const Format* format = find_format(type);
  require(format != nullptr, "{} is not one of the block types that are read here", info(type).name);
  return *format;
}

// ---- Writing ----

// A tensor on its way into blocks: what is said where it does not fit.
struct Source {
  const std::string& name;
  DType type;

  void put_half(std::byte* at, float value) const {
    const uint16_t bits = float_to_f16(value);
    require(std::isfinite(f16_to_float(bits)),
            "the tensor {} holds numbers that are too large for the scales of {}; take --type bf16 or f32", name,
            info(type).name);
    std::memcpy(at, &bits, sizeof bits);
  }
};

// 1 / scale. A scale so small that its inverse overflows is zero in half precision: then each payload counts for
// nothing, and is 0.
float inverse(float scale) { return scale == 0.0F ? 0.0F : 1.0F / scale; }
float finite_or_zero(float value) { return std::isfinite(value) ? value : 0.0F; }

void quantize_q8_0(const Source& source, std::span<const float> x, std::byte* block) {
  float largest = 0.0F;
  for (const float v : x) largest = std::max(largest, std::abs(v));
  const float scale = largest / 127.0F;
  const float by = inverse(scale);
  source.put_half(block, scale);
  for (size_t i = 0; i < x.size(); ++i) {
    block[2 + i] = static_cast<std::byte>(static_cast<int8_t>(std::round(finite_or_zero(x[i] * by))));
  }
}

// Nibbles of whole numbers from 0 to 15, which `level` gives before they are cut to that.
template <typename Level>
void put_nibbles(std::span<const float> x, std::byte* packed, Level&& level) {
  const auto cut = [&](size_t i) {
    return static_cast<uint8_t>(std::clamp(std::trunc(finite_or_zero(level(x[i]))), 0.0F, 15.0F));
  };
  for (size_t i = 0; i < 16; ++i) packed[i] = static_cast<std::byte>(cut(i) | (cut(i + 16) << 4U));
}

// The number of largest magnitude (the first of several) becomes -8.
void quantize_q4_0(const Source& source, std::span<const float> x, std::byte* block) {
  float extreme = x[0];
  for (const float v : x) {
    if (std::abs(v) > std::abs(extreme)) extreme = v;
  }
  const float scale = extreme / -8.0F;
  const float by = inverse(scale);
  source.put_half(block, scale);
  put_nibbles(x, block + 2, [&](float v) { return v * by + 8.5F; });
}

// Of zeros of both signs the last counts as the least and as the largest (which of them does for the gguf package
// depends on the vectors of the machine; they stand for the same number).
void quantize_q4_1(const Source& source, std::span<const float> x, std::byte* block) {
  float low = x[0];
  float high = x[0];
  for (const float v : x) {
    if (v <= low) low = v;
    if (v >= high) high = v;
  }
  const float scale = (high - low) / 15.0F;
  const float by = inverse(scale);
  source.put_half(block, scale);
  source.put_half(block + 2, low);
  put_nibbles(x, block + 4, [&](float v) { return (v - low) * by + 0.5F; });
}

}  // namespace

const QuantInfo* quant_info(DType type) {
  const Format* format = find_format(type);
  return format == nullptr ? nullptr : &format->info;
}

void unpack(DType type, std::span<const std::byte> blocks, std::span<uint8_t> payload, std::span<float> scales,
            std::span<float> minimums) {
  const Format& format = format_of(type);
  const DTypeInfo& t = info(type);
  const size_t n = blocks.size() / t.block_bytes;
  const size_t groups = t.block_elements / format.info.group;
  const size_t block_minimums = format.info.minimums ? groups : 0;
  require(blocks.size() % t.block_bytes == 0 && payload.size() == n * t.block_elements && scales.size() == n * groups &&
              minimums.size() == n * block_minimums,
          "{} bytes of {} do not unpack to {} numbers with {} scales and {} minimums", blocks.size(), t.name,
          payload.size(), scales.size(), minimums.size());
  for (size_t b = 0; b < n; ++b) {
    format.unpack(reinterpret_cast<const uint8_t*>(blocks.data()) + b * t.block_bytes,
                  {.payload = payload.data() + b * t.block_elements,
                   .scales = scales.data() + b * groups,
                   .minimums = minimums.data() + b * block_minimums});
  }
}

void dequantize(DType type, std::span<const std::byte> blocks, std::span<float> values) {
  const QuantInfo& q = format_of(type).info;
  const DTypeInfo& t = info(type);
  require(blocks.size() % t.block_bytes == 0 && values.size() == blocks.size() / t.block_bytes * t.block_elements,
          "{} bytes of {} are not the blocks of {} numbers", blocks.size(), t.name, values.size());
  std::array<uint8_t, kLargeBlock> payload{};
  std::array<float, kLargeBlock / 16> scales{};
  std::array<float, kLargeBlock / 16> minimums{};
  const size_t groups = t.block_elements / q.group;
  for (size_t b = 0; b * t.block_elements < values.size(); ++b) {
    unpack(type, blocks.subspan(b * t.block_bytes, t.block_bytes), std::span(payload).first(t.block_elements),
           std::span(scales).first(groups), std::span(minimums).first(q.minimums ? groups : 0));
    float* out = values.data() + b * t.block_elements;
    for (size_t i = 0; i < t.block_elements; ++i) {
      out[i] = scales[i / q.group] * static_cast<float>(payload[i] - q.offset);
      if (q.minimums) out[i] += minimums[i / q.group];
    }
  }
}

std::vector<std::byte> quantize(DType type, std::span<const float> values, const std::string& name) {
  const DTypeInfo& t = info(type);
  const auto write = type == DType::Q8_0   ? quantize_q8_0
                     : type == DType::Q4_0 ? quantize_q4_0
                     : type == DType::Q4_1 ? quantize_q4_1
                                           : nullptr;
  require(write != nullptr, "the tensor {} is not written as {} here (Q8_0, Q4_0 and Q4_1 are)", name, t.name);
  require(values.size() % t.block_elements == 0, "the tensor {}: {} numbers are no whole blocks of {}", name,
          values.size(), t.block_elements);
  for (const float v : values) {
    require(std::isfinite(v), "the tensor {} holds {}, which {} cannot; take --type f32", name, v, t.name);
  }
  std::vector<std::byte> blocks(values.size() / t.block_elements * t.block_bytes);
  for (size_t b = 0; b * t.block_elements < values.size(); ++b) {
    write({name, type}, values.subspan(b * t.block_elements, t.block_elements), blocks.data() + b * t.block_bytes);
  }
  return blocks;
}

}  // namespace folio::core
