// Tests the emulated tile products: each type gives the result of three plain loops, with the layouts of mma.h.
#include "infer/cuda/mma.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <random>
#include <vector>

#include "infer/cuda/numbers.h"
#include "tests/infer/cuda/host/emulator.h"
#include "tests/infer/cuda/support.h"
#include "tests/infer/cuda/test_kernels.h"

namespace folio::infer::gpu {
namespace test {
void PrintTo(Kind kind, std::ostream* out) {
  *out << std::array{"f16", "bf16", "tf32", "s8", "s8_half"}.at(static_cast<size_t>(kind));
}
}  // namespace test
namespace {

using test::Kind;

/// The operands of a product as matrices. Each element contains the bits of one number.
struct Operands {
  unsigned depth;
  std::vector<uint32_t> a;  // (16, depth)
  std::vector<uint32_t> b;  // (depth, 8)
  std::vector<uint32_t> c;  // (16, 8)
};

unsigned numbers_in_word(Kind kind) {
  return kind == Kind::kTf32 ? 1 : kind == Kind::kF16 || kind == Kind::kBf16 ? 2 : 4;
}

double value(Kind kind, uint32_t bits) {
  switch (kind) {
    case Kind::kF16:
      return from_f16(static_cast<uint16_t>(bits));
    case Kind::kBf16:
      return from_bf16(static_cast<uint16_t>(bits));
    case Kind::kTf32:
      return float_of(bits & 0xFFFFE000U);
    default:
      return static_cast<int8_t>(bits);
  }
}

/// The row of A and the first k of a lane's word, according to the table in mma.h.
struct PlaceInTile {
  unsigned row;
  unsigned k;
};
PlaceInTile place_a(unsigned lane, unsigned word, unsigned in_word) {
  return {lane / 4 + (word % 2) * 8, (lane % 4 + (word / 2) * 4) * in_word};
}
PlaceInTile place_b(unsigned lane, unsigned word, unsigned in_word) {
  return {lane / 4, (lane % 4 + word * 4) * in_word};
}
size_t place_c(unsigned lane, unsigned i) { return (lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2; }

std::vector<uint32_t> run(Kind kind, const Operands& p) {
  const unsigned in_word = numbers_in_word(kind);
  const unsigned bits = 32 / in_word;
  std::vector<uint32_t> a(32 * 4);
  std::vector<uint32_t> b(32 * 2);
  std::vector<uint32_t> c(32 * 4);
  for (unsigned lane = 0; lane < 32; ++lane) {
    for (unsigned i = 0; i < in_word; ++i) {
      for (unsigned w = 0; w < 4; ++w) {
        const auto [row, k] = place_a(lane, w, in_word);
        a[lane * 4 + w] |= p.a[row * p.depth + k + i] << (i * bits);
      }
      for (unsigned w = 0; w < 2; ++w) {
        const auto [column, k] = place_b(lane, w, in_word);
        b[lane * 2 + w] |= p.b[(k + i) * 8 + column] << (i * bits);
      }
    }
    for (unsigned i = 0; i < 4; ++i) c[lane * 4 + i] = p.c[place_c(lane, i)];
  }
  Stream stream(0);
  const DeviceMemory device_a = test::on_device(stream, a);
  const DeviceMemory device_b = test::on_device(stream, b);
  const DeviceMemory device_c = test::on_device(stream, c);
  launch(test::multiply, {}, {32}, 0, stream, kind, device_c.as<uint32_t>(), device_a.as<uint32_t>(),
         device_b.as<uint32_t>());
  c = test::on_host<uint32_t>(stream, device_c);
  std::vector<uint32_t> result(16 * 8);
  for (unsigned lane = 0; lane < 32; ++lane) {
    for (unsigned i = 0; i < 4; ++i) result[place_c(lane, i)] = c[lane * 4 + i];
  }
  return result;
}

class Matmuls : public ::testing::TestWithParam<Kind> {
 protected:
  [[nodiscard]] bool whole() const { return GetParam() == Kind::kS8 || GetParam() == Kind::kS8Half; }
  [[nodiscard]] unsigned depth() const { return 8 * numbers_in_word(GetParam()); }
  [[nodiscard]] uint32_t random_number() {
    std::normal_distribution<float> normal;
    switch (GetParam()) {
      case Kind::kF16:
        return to_f16(normal(random_));
      case Kind::kBf16:
        return to_bf16(normal(random_));
      case Kind::kTf32:
        return bits_of(normal(random_));  // a product doesn't read the low bits
      default:
        return random_() & 0xFFU;
    }
  }
  Operands random_product() {
    Operands p{depth(), std::vector<uint32_t>(16 * depth()), std::vector<uint32_t>(depth() * 8),
               std::vector<uint32_t>(16 * 8)};
    for (uint32_t& x : p.a) x = random_number();
    for (uint32_t& x : p.b) x = random_number();
    for (uint32_t& x : p.c) x = whole() ? static_cast<uint32_t>(random_()) : bits_of(1.5F);
    return p;
  }
  std::mt19937 random_{7};
};

INSTANTIATE_TEST_SUITE_P(Kinds, Matmuls,
                         ::testing::Values(Kind::kF16, Kind::kBf16, Kind::kTf32, Kind::kS8, Kind::kS8Half),
                         ::testing::PrintToStringParamName());

TEST_P(Matmuls, MatchATripleLoop) {
  for (int turn = 0; turn < 20; ++turn) {
    const Operands p = random_product();
    const std::vector<uint32_t> result = run(GetParam(), p);
    for (unsigned r = 0; r < 16; ++r) {
      for (unsigned n = 0; n < 8; ++n) {
        double sum = 0;
        for (unsigned k = 0; k < p.depth; ++k) {
          sum += value(GetParam(), p.a[r * p.depth + k]) * value(GetParam(), p.b[k * 8 + n]);
        }
        const uint32_t c = p.c[r * 8 + n];
        const uint32_t expected = whole() ? c + static_cast<uint32_t>(static_cast<int32_t>(sum))
                                          : bits_of(static_cast<float>(static_cast<double>(float_of(c)) + sum));
        ASSERT_EQ(result[r * 8 + n], expected) << "row " << r << ", column " << n;
      }
    }
  }
}

TEST(MatmulF16, WidensEveryValueExactly) {
  // Multiplies eight F16 values at a time by 1: every seventh 16-bit pattern, including NaNs, must be widened exactly.
  for (uint32_t first = 0; first < 0x10000; first += 8 * 7) {
    Operands p{16, std::vector<uint32_t>(16 * 16), std::vector<uint32_t>(16 * 8), std::vector<uint32_t>(16 * 8)};
    for (unsigned r = 0; r < 16; ++r) p.a[r * 16 + r] = 0x3C00;
    for (unsigned n = 0; n < 8; ++n) p.b[5 * 8 + n] = std::min(first + 7 * n, 0xFFFFU);
    const std::vector<uint32_t> result = run(Kind::kF16, p);
    for (unsigned n = 0; n < 8; ++n) {
      const float expected = from_f16(static_cast<uint16_t>(p.b[5 * 8 + n]));
      const float found = float_of(result[5 * 8 + n]);
      if (std::isnan(expected)) {
        ASSERT_TRUE(std::isnan(found)) << p.b[5 * 8 + n];
      } else {
        ASSERT_EQ(found, expected) << p.b[5 * 8 + n];
      }
    }
  }
}

}  // namespace
}  // namespace folio::infer::gpu
