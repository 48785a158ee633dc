// Emulates the tensor-core products of mma.h on the CPU: the lanes of a warp wait for each other, and the last one
// computes the tile for all of them. Float products are exact, summed over k in double precision from k = 0, added to
// the accumulator and rounded to float; a GPU adds in another order and rounds more often. Int8 tiles use int32 sums.
#include "infer/cuda/mma.h"

#include <bit>
#include <cstring>

#include "core/error.h"
#include "tests/infer/cuda/host/block.h"
#include "tests/infer/cuda/host/counts.h"

// target_clones compiles each product with and without AVX2; one version is selected at program start. clang 16 doesn't
// support target_clones.
#if defined(__x86_64__) && !defined(__clang__)
#define FOLIO_WIDE __attribute__((target_clones("avx2", "default")))
#else
#define FOLIO_WIDE
#endif

namespace folio::infer::gpu {
namespace {

constexpr unsigned kRows = 16;
constexpr unsigned kColumns = 8;

using host::Lanes;

/// One lane's arguments of a tile product.
template <typename S>
struct Operands {
  S* sums;
  const TileA* a;
  const TileB* b;
  int half;
};

/// Eight doubles, which g++ and clang process in the processor's widest vectors.
using Doubles = double __attribute__((vector_size(64)));

template <typename S>
const Operands<S>& operands(const Lanes& lanes, unsigned lane) {
  return *static_cast<const Operands<S>*>(lanes[lane]);
}

/// The 32-bit words of tiles A (row, word of the row) and B (column, word of the column), gathered from all lanes. Lane
/// 4 g + t has words t and t + 4 of A's rows g and g + 8, and of B's column g.
struct Words32 {
  alignas(64) uint32_t a[kRows][8];
  alignas(64) uint32_t b[kColumns][8];
};

template <typename S>
Words32 gather(const Lanes& lanes, unsigned depth) {
  host::counting::tile_product(kRows * kColumns * depth);
  Words32 words;
  for (unsigned g = 0; g < 8; ++g) {
    for (unsigned t = 0; t < 4; ++t) {
      const auto& lane = operands<S>(lanes, 4 * g + t);
      words.a[g][t] = lane.a->w[0];
      words.a[g + 8][t] = lane.a->w[1];
      words.a[g][t + 4] = lane.a->w[2];
      words.a[g + 8][t + 4] = lane.a->w[3];
      words.b[g][t] = lane.b->w[0];
      words.b[g][t + 4] = lane.b->w[1];
    }
  }
  return words;
}

/// Converts F16 to float like core::f16_to_float, but without a branch.
inline float widen_f16(uint32_t h) {
  const float magnitude = std::bit_cast<float>((h & 0x7FFFU) << 13U) * 0x1p112F;
  const uint32_t special = (h & 0x7C00U) == 0x7C00U ? 0x7F800000U : 0U;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | special | (h & 0x8000U) << 16U);
}

/// Two F16 values in a word. The value with even k is in the lower half.
struct F16 {
  static constexpr unsigned kInWord = 2;
  static float number(uint32_t word, unsigned i) { return widen_f16(word >> 16U * i & 0xFFFFU); }
};
struct Bf16 {
  static constexpr unsigned kInWord = 2;
  static float number(uint32_t word, unsigned i) {
    return std::bit_cast<float>(i == 0 ? word << 16U : word & 0xFFFF0000U);
  }
};
/// Returns the float stored in `word`, truncated to its upper 19 bits, as the GPU's TF32 products read it.
float tf32(uint32_t word) { return std::bit_cast<float>(word & 0xFFFFE000U); }

/// Adds the sums of row r to the lanes' accumulators.
inline void add_row(const Lanes& lanes, unsigned r, const Doubles& sums) {
  for (unsigned t = 0; t < 4; ++t) {
    float* c = operands<Sums>(lanes, r % 8 * 4 + t).sums->c + r / 8 * 2;
    c[0] = static_cast<float>(c[0] + sums[2 * t]);
    c[1] = static_cast<float>(c[1] + sums[2 * t + 1]);
  }
}

template <typename Kind>
FOLIO_WIDE void multiply_floats(const Lanes& lanes, unsigned /*mask*/) {
  constexpr unsigned kInWord = Kind::kInWord;
  constexpr unsigned kDepth = 8 * kInWord;
  const Words32 words = gather<Sums>(lanes, kDepth);
  alignas(64) double a[kRows][kDepth];
  for (unsigned r = 0; r < kRows; ++r) {
    for (unsigned i = 0; i < kInWord; ++i) {
      for (unsigned w = 0; w < 8; ++w) a[r][w * kInWord + i] = Kind::number(words.a[r][w], i);
    }
  }
  Doubles b[kDepth];
  for (unsigned w = 0; w < 8; ++w) {
    for (unsigned i = 0; i < kInWord; ++i) {
      for (unsigned n = 0; n < kColumns; ++n) b[w * kInWord + i][n] = Kind::number(words.b[n][w], i);
    }
  }
  for (unsigned r = 0; r < kRows; ++r) {
    Doubles sums{};
    for (unsigned k = 0; k < kDepth; ++k) sums += a[r][k] * b[k];
    add_row(lanes, r, sums);
  }
}

/// Multiplies floats as two TF32 numbers each, a high and a low part. The product of the low parts is omitted.
FOLIO_WIDE void multiply_split_floats(const Lanes& lanes, unsigned /*mask*/) {
  const Words32 words = gather<Sums>(lanes, 8);
  const auto low = [](uint32_t word) { return tf32(std::bit_cast<uint32_t>(std::bit_cast<float>(word) - tf32(word))); };
  Doubles high_b[8];
  Doubles all_b[8];
  for (unsigned k = 0; k < 8; ++k) {
    for (unsigned n = 0; n < kColumns; ++n) {
      high_b[k][n] = tf32(words.b[n][k]);
      all_b[k][n] = high_b[k][n] + low(words.b[n][k]);
    }
  }
  for (unsigned r = 0; r < kRows; ++r) {
    Doubles sums{};
    for (unsigned k = 0; k < 8; ++k) {
      sums += static_cast<double>(tf32(words.a[r][k])) * all_b[k] + static_cast<double>(low(words.a[r][k])) * high_b[k];
    }
    add_row(lanes, r, sums);
  }
}

/// Multiplies int8 tiles. A product of depth 16 uses k in [16 h, 16 h + 16), where h is the operands' `half` (0 or 1).
template <unsigned depth>
FOLIO_WIDE void multiply_bytes(const Lanes& lanes, unsigned /*mask*/) {
  const Words32 words = gather<IntSums>(lanes, depth);
  const int half = operands<IntSums>(lanes, 0).half;
  for (unsigned lane = 1; depth == 16 && lane < kWarp; ++lane) {
    core::require(operands<IntSums>(lanes, lane).half == half,
                  "multiply_s8_half: lane 0 takes half {}, lane {} the other", half, lane);
  }
  const unsigned first = 16 * static_cast<unsigned>(half);
  alignas(64) int8_t bytes[kRows + kColumns][32];
  std::memcpy(bytes, words.a, sizeof words.a);
  std::memcpy(bytes + kRows, words.b, sizeof words.b);
  alignas(64) int16_t wide[kRows + kColumns][depth];
  for (unsigned r = 0; r < kRows + kColumns; ++r) {
    for (unsigned k = 0; k < depth; ++k) wide[r][k] = bytes[r][first + k];
  }
  for (unsigned r = 0; r < kRows; ++r) {
    for (unsigned n = 0; n < kColumns; ++n) {
      int32_t sum = 0;
      for (unsigned k = 0; k < depth; ++k) sum += wide[r][k] * wide[kRows + n][k];
      int32_t& c = operands<IntSums>(lanes, r % 8 * 4 + n / 2).sums->c[r / 8 * 2 + n % 2];
      c = static_cast<int32_t>(static_cast<uint32_t>(c) + static_cast<uint32_t>(sum));
    }
  }
}

template <typename S>
void multiply(S& s, const TileA& a, const TileB& b, int half, void (*compute)(const Lanes& lanes, unsigned mask),
              const std::source_location& at) {
  Operands<S> mine{&s, &a, &b, half};
  host::block().meet(kAllLanes, &mine, compute, at);
}

}  // namespace

void multiply_f16(Sums& s, const TileA& a, const TileB& b, std::source_location at) {
  multiply(s, a, b, 0, multiply_floats<F16>, at);
}

void multiply_bf16(Sums& s, const TileA& a, const TileB& b, std::source_location at) {
  multiply(s, a, b, 0, multiply_floats<Bf16>, at);
}

void multiply_f32(Sums& s, const TileA& a, const TileB& b, std::source_location at) {
  multiply(s, a, b, 0, multiply_split_floats, at);
}

void multiply_s8(IntSums& s, const TileA& a, const TileB& b, std::source_location at) {
  multiply(s, a, b, 0, multiply_bytes<32>, at);
}

void multiply_s8_half(IntSums& s, const TileA& a, const TileB& b, int half, std::source_location at) {
  multiply(s, a, b, half, multiply_bytes<16>, at);
}

}  // namespace folio::infer::gpu
