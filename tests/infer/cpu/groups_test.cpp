// Tests quantized weights in groups: repacking is lossless, inputs are quantized as kernels.h defines, and each
// instruction set's results equal the reference's bit for bit for each kind of group, number of inputs and range of
// rows. The reference differs from the exact product at most by the error of the quantized inputs and of rounded sums.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>

#include "core/float16.h"
#include "infer/cpu/repack.h"
#include "infer/reference/kernels.h"
#include "tests/infer/cpu/guarded_buffer.h"
#include "tests/infer/cpu/kernel_sets.h"
#include "tests/infer/support.h"

namespace folio::infer::kernels {
namespace {

using core::DType;
using test::Buffer;
using test::Guarded;
using test::kNaN;
using test::kRanges;
using test::random_floats;
using test::same_bits;

constexpr std::array kTypes{DType::Q8_0, DType::Q4_0, DType::Q4_1, DType::Q5_0, DType::Q5_1,
                            DType::Q4_K, DType::Q5_K, DType::Q6_K, DType::MXFP4};

// A random matrix of a quantized type, and its tiles as repack() writes them.
struct Packed {
  Packed(DType type, size_t n_out, size_t k, uint64_t seed, std::optional<std::byte> fill = {})
      : blocks(test::random_blocks(type, n_out * k / core::info(type).block_elements, seed, 1.0)) {
    if (fill) std::fill(blocks.begin(), blocks.end(), *fill);
    tensor = {
        .name = "w", .type = type, .shape = {static_cast<int64_t>(n_out), static_cast<int64_t>(k)}, .bytes = blocks};
    core::ThreadPool pool(1);
    // Sets all bits first, to detect bytes that repack() doesn't write.
    tiles = std::make_unique<Guarded<uint8_t>>(group_bytes(tensor), uint8_t{0xFF}, 0);
    matrix = repack(tensor, {tiles->data(), group_bytes(tensor)}, pool);
  }

  std::vector<std::byte> blocks;
  core::TensorView tensor;
  std::unique_ptr<Guarded<uint8_t>> tiles;
  GroupMatrix matrix{};
};

// Rows of k inputs, quantized by `kernels`.
struct Quantized {
  Quantized(const Kernels& kernels, std::span<const float> x, size_t k)
      : values(x.size()), scales(x.size() / 32), scaled_sums(x.size() / 32), sums(x.size() / 32 * 3) {
    for (size_t n = 0; n * k < x.size(); n += 16) {
      kernels.quantize(x.data() + n * k, std::min<size_t>(16, x.size() / k - n), k,
                       {.values = &values[n * k],
                        .scales = &scales[n * k / 32],
                        .scaled_sums = &scaled_sums[n * k / 32],
                        .sums = &sums[n * k / 32 * 3]});
    }
  }
  [[nodiscard]] QuantizedInputs inputs() { return {values.data(), scales.data(), scaled_sums.data(), sums.data()}; }

  std::vector<int8_t> values;
  std::vector<float> scales;
  std::vector<float> scaled_sums;
  std::vector<int32_t> sums;
};

TEST(Repack, RepackingKeepsValues) {
  for (const DType type : kTypes) {
    for (const size_t n_out : {1U, 15U, 16U, 17U, 40U}) {
      for (const size_t blocks : {1U, 2U, 3U}) {
        const size_t k = blocks * core::info(type).block_elements;
        const Packed packed(type, n_out, k, n_out);
        const Matrix matrix{.weights = packed.matrix, .n_out = n_out, .k = k};
        ASSERT_TRUE(same_bits(test::floats_of(matrix), core::to_floats(packed.tensor)))
            << core::info(type).name << " " << n_out << " x " << k;
      }
    }
  }
}

TEST(Repack, NeedsAtMostThreePercentMoreMemory) {
  for (const DType type : kTypes) {
    const Packed packed(type, 64, 1024, 3);
    EXPECT_EQ(group_bytes(packed.tensor) % 64, 0U);
    const auto bytes = static_cast<double>(packed.tensor.bytes.size());
    EXPECT_GE(static_cast<double>(group_bytes(packed.tensor)), bytes) << core::info(type).name;
    EXPECT_LE(static_cast<double>(group_bytes(packed.tensor)), 1.03 * bytes) << core::info(type).name;
  }
}

TEST(Repack, RejectsTensorsOfTheWrongSize) {
  const std::vector<std::byte> bytes(64 * 33);  // one byte missing in each row
  const core::TensorView damaged{.name = "w", .type = core::DType::Q8_0, .shape = {64, 32}, .bytes = bytes};
  core::ThreadPool pool(1);
  std::vector<uint8_t> tiles(group_bytes(damaged));
  EXPECT_ERROR(repack(damaged, tiles, pool), "tensor w has 2112 bytes, expected 64 rows of 32 elements in Q8_0");
}

TEST(Repack, RejectsOtherTypes) {
  const std::vector<float> values(64);
  const core::TensorView tensor{
      .name = "w", .type = DType::F32, .shape = {2, 32}, .bytes = std::as_bytes(std::span(values))};
  EXPECT_ERROR(group_layout(tensor), "tensor w has type F32, expected one quantized in groups");
}

class IsaGroups : public ::testing::TestWithParam<test::KernelSet> {
 protected:
  const Kernels& fast_ = *GetParam().kernels;
};

INSTANTIATE_TEST_SUITE_P(Isa, IsaGroups, ::testing::ValuesIn(test::kernel_sets()), ::testing::PrintToStringParamName());

TEST_P(IsaGroups, QuantizedInputsMatchTheReference) {
  const float inf = std::numeric_limits<float>::infinity();
  std::vector<float> x = random_floats(32 * 400, 5, 2.0);
  for (size_t i = 0; i < x.size(); ++i) {
    const auto exponent = static_cast<int>(core::random_below(6, i / 32, 260)) - 140;
    x[i] = i / 32 % 2 == 0 ? std::ldexp(x[i], exponent) : std::nearbyint(x[i] * 50.0F) * 0.5F;
    if (i / 32 % 4 == 3 && i % 32 == 9) x[i] = 127.0F;  // makes the scale 1, so that values of x.5 are ties
  }
  std::fill_n(x.begin(), 32, 0.0F);
  std::fill_n(x.begin() + 32, 32, -0.0F);
  x[32 * 2 + 7] = inf;
  x[32 * 3 + 8] = -inf;
  x[32 * 4 + 9] = kNaN;
  x[32 * 5 + 31] = -kNaN;
  x[32 * 6] = std::numeric_limits<float>::max();
  const Quantized got(fast_, x, x.size());
  const Quantized expected(reference_kernels(), x, x.size());
  EXPECT_EQ(got.values, expected.values);
  for (size_t g = 0; g < got.scales.size(); ++g) {
    if (fast_.isa != core::Isa::Reference) {  // the reference stores no sums
      const int8_t* values = &expected.values[g * 32];
      const int32_t first = std::accumulate(values, values + 16, int32_t{0});
      const int32_t last = std::accumulate(values + 16, values + 32, int32_t{0});
      ASSERT_EQ(std::vector(&got.sums[3 * g], &got.sums[3 * g] + 3), (std::vector{-(first + last), -first, -last}))
          << g;
    }
    const bool damaged = g >= 2 && g < 6;
    ASSERT_EQ(std::isfinite(got.scales[g]), !damaged) << g;
    if (damaged) continue;
    ASSERT_EQ(std::bit_cast<uint32_t>(got.scales[g]), std::bit_cast<uint32_t>(expected.scales[g])) << g;
    ASSERT_EQ(got.scaled_sums[g], expected.scaled_sums[g]) << g;
  }
}

TEST_P(IsaGroups, NonFiniteInputsStayVisible) {
  const Packed packed(DType::Q4_1, 20, 64, 1);
  for (const float damage : {kNaN, std::numeric_limits<float>::infinity()}) {
    auto x = random_floats(64, 1);
    x[40] = damage;
    Quantized q(fast_, x, 64);
    std::vector<float> y(20);
    fast_.matmul_groups(q.inputs(), 1, packed.matrix, 0, 20, y.data(), 20, false);
    EXPECT_TRUE(std::none_of(y.begin(), y.end(), [](float v) { return std::isfinite(v); }));
  }
}

struct Case {
  size_t n_rows;
  size_t begin;
  size_t end;
  bool accumulate;
};

void check(const Kernels& fast, const Packed& packed, std::span<const float> x, const Case& c) {
  const size_t k = packed.matrix.k;
  Quantized q(fast, x.first(c.n_rows * k), k);
  Quantized plain(reference_kernels(), x.first(c.n_rows * k), k);
  const size_t stride = c.end + 3;
  std::vector<float> expected = random_floats(c.n_rows * stride, 5);
  Buffer got(expected, (c.n_rows * 7 + 2) % 10);
  reference_kernels().matmul_groups(plain.inputs(), c.n_rows, packed.matrix, c.begin, c.end, expected.data(), stride,
                                    c.accumulate);
  fast.matmul_groups(q.inputs(), c.n_rows, packed.matrix, c.begin, c.end, got.data(), stride, c.accumulate);
  ASSERT_TRUE(test::wrote(got, expected))
      << core::info(packed.tensor.type).name
      << fmt::format(" k {} rows {} range [{}, {}) accumulate {}", k, c.n_rows, c.begin, c.end, c.accumulate);
}

TEST_P(IsaGroups, MatmulGivesTheReferencesBits) {
  size_t turn = 0;
  for (const DType type : kTypes) {
    for (const size_t blocks : {1U, 2U, 3U, 5U}) {
      const size_t k = blocks * core::info(type).block_elements;
      const Packed packed(type, 44, k, blocks);
      const auto x = random_floats(35 * k, k, 2.0);
      for (size_t n_rows = 1; n_rows <= 35; n_rows += n_rows < 19 ? 1 : 16) {
        const auto [begin, end] = kRanges[turn++ % kRanges.size()];
        check(fast_, packed, x, {n_rows, begin, end, turn % 2 == 0});
        if (HasFatalFailure()) return;
      }
    }
  }
}

// All quants are at their maximum (or minimum) and all inputs at 127 (or -127): saturating instructions would give
// wrong sums.
TEST_P(IsaGroups, MatmulSaturatesNoSumAtTheExtremes) {
  for (const DType type : kTypes) {
    const size_t k = 2 * core::info(type).block_elements;
    for (const auto fill : {std::byte{0x7F}, std::byte{0x80}, std::byte{0x3C}, std::byte{0x0F}, std::byte{0xF0}}) {
      Packed packed(type, 16, k, 1, fill);
      const GroupMatrix& m = packed.matrix;
      for (const uint8_t extreme : {uint8_t{0xFF}, uint8_t{0x00}, uint8_t{0xF0}, uint8_t{0x0F}}) {
        size_t begin = 0;  // offset of the current block, in bytes
        for (size_t column = 0; column < k; column += kBlockColumns) {
          const size_t n = m.groups_of(column / kBlockColumns);
          uint8_t* block = packed.tiles->data() + begin;
          std::fill(block + m.quants_at(n), block + m.block_bytes(n), extreme);
          // Writes finite scales, since the bytes of `fill` may be NaN scales, and the bits of NaNs can't be compared.
          for (size_t i = 0; i < m.quants_at(n); ++i) {
            block[i] = static_cast<uint8_t>(i % 2 == 1 ? 0x34 : i % 4 == 0 ? 7 : 0x11);
          }
          begin += m.block_bytes(n);
        }
        for (const float sign : {1.0F, -1.0F}) {
          const std::vector<float> x(35 * k, sign * 127.0F);
          for (const size_t n_rows : {1U, 2U, 4U, 17U, 35U}) {
            check(fast_, packed, x, {n_rows, 0, 16, false});
            if (HasFatalFailure()) return;
          }
        }
      }
    }
  }
}

// Compares with products in double precision. With the quantized inputs, only sums are rounded. With the unquantized
// ones, an input differs by at most half a step, compared with which the rounding of sums is small.
TEST(GroupsReference, ErrorIsAtMostThatOfQuantizedInputs) {
  for (const DType type : kTypes) {
    const size_t k = 3 * core::info(type).block_elements;
    const Packed packed(type, 33, k, 9);
    const auto weights = core::to_floats(packed.tensor);
    const auto x = random_floats(2 * k, 4);
    Quantized q(reference_kernels(), x, k);
    std::vector<float> got(2 * 33);
    reference_kernels().matmul_groups(q.inputs(), 2, packed.matrix, 0, 33, got.data(), 33, false);
    for (size_t i = 0; i < got.size(); ++i) {
      const size_t n = i / 33, r = i % 33;
      double exact = 0.0;
      double rounded = 0.0;
      double step = 0.0;
      for (size_t c = 0; c < k; ++c) {
        const double weight = weights[r * k + c];
        const double scale = q.scales[n * (k / 32) + c / 32];
        exact += weight * x[n * k + c];
        rounded += weight * scale * q.values[n * k + c];
        step += std::abs(weight) * 0.5 * scale;
      }
      ASSERT_NEAR(got[i], exact, 1.001 * step) << core::info(type).name;
      ASSERT_NEAR(got[i], rounded, 0.002 * step) << core::info(type).name;
    }
  }
}

}  // namespace
}  // namespace folio::infer::kernels
