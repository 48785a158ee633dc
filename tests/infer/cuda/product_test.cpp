// Tests packed weights and products. Packing is lossless. For every type and size, products are within rounding errors
// of exact products. Results depend neither on the number of rows nor on the order of blocks and threads.
#include <bit>
#include <cmath>

#include "infer/reference/reference.h"
#include "tests/infer/cuda/host/emulator.h"
#include "tests/infer/cuda/operands.h"

namespace folio::infer::gpu {
namespace {

using core::DType;
using infer::test::random_floats;
using infer::test::same_bits;
using test::Inputs;
using test::kTypes;
using test::on_device;
using test::on_host;
using test::product;
using test::unwritten;
using test::Weights;

struct Exact {
  double value = 0.0;
  double bound = 0.0;
};

// Returns one output, Σ w x, and a bound on its error on the GPU, which rounds inputs and rounds or truncates sums.
Exact exact(const Weights& w, std::span<const float> x, size_t output) {
  const size_t k = x.size();
  Exact e;
  double magnitudes = 0.0;
  double weights = 0.0;
  double largest = 0.0;
  std::vector<float> inputs(x.begin(), x.end());
  const bool groups = w.matrix.kind == Kind::Groups;
  if (groups) {  // the CPU quantizes inputs alike, so the bound omits that error
    std::vector<int8_t> values(k);
    std::vector<float> scales(k / 32);
    std::vector<float> scaled_sums(k / 32);
    kernels::reference::quantize(x.data(), 1, k, {values.data(), scales.data(), scaled_sums.data(), nullptr});
    for (size_t i = 0; i < k; ++i) inputs[i] = static_cast<float>(values[i]) * scales[i / 32];
  }
  for (size_t i = 0; i < k; ++i) {
    const double number = w.numbers[output * k + i];
    e.value += number * inputs[i];
    magnitudes += std::abs(number * inputs[i]);
    weights += std::abs(number);
    largest = std::max(largest, std::abs(static_cast<double>(inputs[i])));
  }
  const auto n = static_cast<double>(k);
  switch (w.matrix.kind) {
    case Kind::F32:  // errors of both factors and the product, and of three sums of n / 8 tiles
      e.bound = magnitudes * (3 * 0x1p-20 + (3 * n / 8 + 12) * 0x1p-23);
      break;
    case Kind::F16:  // inputs are scaled to a maximum of 2^14; small ones are rounded to multiples of 2^-24
      e.bound = magnitudes * (0x1p-11 + (n / 16 + 12) * 0x1p-23) + weights * largest * 0x1p-38;
      break;
    case Kind::BF16:
      e.bound = magnitudes * (0x1p-8 + (n / 16 + 12) * 0x1p-23);
      break;
    case Kind::Groups: {
      // With minimums, a group's two terms may be larger than their sum. The factor 64 is larger than any quant.
      const double parts = weights * largest * (w.matrix.minimums ? 64.0 : 1.0);
      e.bound = std::max(magnitudes, parts) * (2 * n / 16 + 12) * 0x1p-23;
      break;
    }
  }
  e.bound += 1e-37;  // values below the smallest normal float may become 0
  return e;
}

// The rows are embedded in reverse order, times a scale.
TEST(Packed, KeepsEveryValue) {
  constexpr float kScale = 5.7F;
  Stream stream(0);
  for (const DType type : kTypes) {
    for (const size_t n_out : {1U, 15U, 16U, 17U, 40U}) {
      for (const size_t k : {size_t{1}, size_t{33}, size_t{130}, size_t{256}, size_t{512}}) {
        if (k % core::info(type).block_elements != 0) continue;
        const Weights w(stream, type, n_out, k);
        std::vector<int32_t> rows(n_out);
        std::iota(rows.rbegin(), rows.rend(), 0);
        const DeviceMemory tokens = on_device(stream, rows);
        const DeviceMemory out = unwritten(stream, n_out * k * sizeof(float));
        embed(stream, w.matrix, tokens.as<int32_t>(), nullptr, kScale, n_out, out.as<float>());
        const auto got = on_host<float>(stream, out);
        for (size_t i = 0; i < got.size(); ++i) {
          ASSERT_EQ(got[i], w.numbers[(n_out - 1 - i / k) * k + i % k] * kScale)
              << core::info(type).name << " " << n_out << " x " << k;
        }
      }
    }
  }
}

TEST(Packed, TilesDoNotDependOnThreadsOrChunks) {
  Stream stream(0);
  const Weights w(stream, DType::Q4_0, 100, 512);
  std::vector<uint8_t> tiles(w.matrix.bytes(), 0xFF);
  core::ThreadPool pool(3);
  const size_t tile = w.matrix.tile_bytes();
  pack_tiles(w.tensor, w.matrix, 0, std::span(tiles).first(2 * tile), pool);
  pack_tiles(w.tensor, w.matrix, 2, std::span(tiles).subspan(2 * tile), pool);
  EXPECT_EQ(tiles, on_host<uint8_t>(stream, w.memory));
}

TEST(Packed, NeedsTheExpectedBitsPerWeight) {
  Stream stream(0);
  const auto bits = [&](DType type) {
    return 8.0 * static_cast<double>(Weights(stream, type, 64, 1024).matrix.bytes()) / (64 * 1024);
  };
  EXPECT_EQ(bits(DType::F32), 32.0);
  EXPECT_EQ(bits(DType::F16), 16.0);
  EXPECT_EQ(bits(DType::Q8_0), 8.5);
  EXPECT_EQ(bits(DType::Q4_0), 4.5);
  EXPECT_EQ(bits(DType::Q4_1), 5.0);
  EXPECT_EQ(bits(DType::Q4_K), 6.0);
  EXPECT_EQ(bits(DType::Q6_K), 10.0);
  EXPECT_EQ(bits(DType::MXFP4), 9.0);
}

class MatmulTypes : public ::testing::TestWithParam<DType> {
 protected:
  // Returns the tested input widths k, which are multiples of the type's block size.
  [[nodiscard]] std::vector<size_t> widths() const {
    const size_t block = core::info(GetParam()).block_elements;
    if (block == 1) return test::kSizes;
    if (block == 32) return {32, 64, 128, 160, 576};
    return {256, 768};
  }
  void expect_near(const std::vector<float>& got, const Inputs& x, const Weights& w, const std::string& what) {
    const size_t k = w.matrix.k;
    for (size_t n = 0; n < x.view.n_rows; ++n) {
      for (size_t r = 0; r < w.matrix.n_out; ++r) {
        const Exact e = exact(w, std::span(x.rows).subspan(n * k, k), r);
        ASSERT_NEAR(got[n * w.matrix.n_out + r], e.value, e.bound)
            << what << ", row " << n << ", output " << r << ", " << w.matrix.n_out << " x " << k;
      }
    }
  }
  Stream stream_{0};
};

INSTANTIATE_TEST_SUITE_P(Types, MatmulTypes, ::testing::ValuesIn(kTypes),
                         [](const auto& info) { return std::string(core::info(info.param).name); });

TEST_P(MatmulTypes, IsWithinRoundingErrors) {
  for (const size_t k : widths()) {
    for (const size_t n_out : {1U, 31U, 33U}) {
      const Weights w(stream_, GetParam(), n_out, k, k + n_out);
      for (const size_t n_rows : {1U, 9U}) {
        const Inputs x(stream_, random_floats(n_rows * k, 5 * k + n_rows), k, w.matrix.kind);
        expect_near(product(stream_, x, w), x, w, "fast");
      }
    }
  }
}

TEST_P(MatmulTypes, ManyRowsAreWithinRoundingErrors) {
  const size_t k = widths().back();
  for (const size_t n_out : {40U, 130U}) {
    const Weights w(stream_, GetParam(), n_out, k, 3);
    const Inputs x(stream_, random_floats(133 * k, 4), k, w.matrix.kind);
    expect_near(product(stream_, x, w), x, w, "tiled");
    expect_near(product(stream_, x, w, true), x, w, "tiled, in one sum");
  }
}

TEST_P(MatmulTypes, RowsDoNotDependOnTheBatch) {
  const size_t k = widths().back();
  const Weights w(stream_, GetParam(), 50, k, 3);
  const auto rows = random_floats(140 * k, 4);
  const Inputs all(stream_, rows, k, w.matrix.kind);
  const auto expected = product(stream_, all, w);
  for (const auto& [first, n] : {std::pair{0, 1}, {5, 1}, {3, 8}, {64, 9}, {70, 64}, {7, 65}}) {
    const auto begin = rows.begin() + first * static_cast<ptrdiff_t>(k);
    const Inputs some(stream_, {begin, begin + n * static_cast<ptrdiff_t>(k)}, k, w.matrix.kind);
    const auto out = expected.begin() + first * 50;
    EXPECT_TRUE(same_bits(product(stream_, some, w), std::vector<float>(out, out + n * 50))) << first << ", " << n;
  }
}

TEST_P(MatmulTypes, DoesNotDependOnThreadOrder) {
  const size_t k = widths().back();
  const Weights w(stream_, GetParam(), 40, k, 3);
  for (const size_t n_rows : {1U, 70U}) {
    const auto rows = random_floats(n_rows * k, 4);
    const auto run = [&] { return test::bytes_of(product(stream_, Inputs(stream_, rows, k, w.matrix.kind), w)); };
    host::require_same_in_all_orders(run, 1);
  }
}

TEST(Matmuls, BatchedMatricesAndBiasesMatchSingleOnes) {
  Stream stream(0);
  for (const size_t n_rows : {1U, 20U, 70U}) {
    const size_t k = 192;
    const Weights a(stream, DType::F16, 40, k, 1);
    const Weights b(stream, DType::F16, 17, k, 2);
    const Weights c(stream, DType::F16, 150, k, 3);
    const auto biases = random_floats(17, 9);
    const DeviceMemory bias = on_device(stream, biases);
    const Inputs x(stream, random_floats(n_rows * k, 4), k, Kind::F16);
    std::vector<DeviceMemory> out;
    std::vector<Matmul> products;
    for (const Weights* w : {&a, &b, &c}) {
      out.push_back(unwritten(stream, n_rows * w->matrix.n_out * sizeof(float)));
      products.push_back(
          {.weight = w->matrix, .bias = w == &b ? bias.as<float>() : nullptr, .out = out.back().as<float>()});
    }
    multiply(stream, x.view, products.data(), products.size());
    EXPECT_TRUE(same_bits(on_host<float>(stream, out[0]), product(stream, x, a)));
    auto biased = product(stream, x, b);
    for (size_t i = 0; i < biased.size(); ++i) biased[i] = biases[i % 17] + biased[i];
    EXPECT_TRUE(same_bits(on_host<float>(stream, out[1]), biased));
    EXPECT_TRUE(same_bits(on_host<float>(stream, out[2]), product(stream, x, c)));
  }
}

// Inputs far above and below F16's range are multiplied by a scale per row, which moves them into the range.
TEST(Matmuls, ScalesInputsBeyondTheRangeOfF16) {
  Stream stream(0);
  const size_t k = 64;
  const Weights w(stream, DType::F16, 20, k);
  for (const double scale : {1e-30, 1e-3, 1.0, 1e6, 1e30}) {
    const Inputs x(stream, random_floats(k, 4, scale), k, Kind::F16);
    const auto got = product(stream, x, w);
    for (size_t r = 0; r < 20; ++r) {
      const Exact e = exact(w, x.rows, r);
      EXPECT_NEAR(got[r], e.value, e.bound) << scale;
    }
  }
}

TEST(Matmuls, NonFiniteValuesStayVisible) {
  Stream stream(0);
  for (const DType type : kTypes) {
    const size_t k = 256;
    const Weights w(stream, type, 20, k);
    for (const float bad : {std::nanf(""), INFINITY, -INFINITY}) {
      auto rows = random_floats(2 * k, 4);
      rows[k + 7] = bad;
      const Inputs x(stream, rows, k, w.matrix.kind);
      const auto got = product(stream, x, w);
      for (size_t r = 0; r < 20; ++r) {
        EXPECT_TRUE(std::isfinite(got[r])) << core::info(type).name;
        EXPECT_FALSE(std::isfinite(got[20 + r])) << core::info(type).name << " " << bad;
      }
    }
  }
}

TEST(PackedInputs, PackedGroupsMatchTheReferenceExactly) {
  Stream stream(0);
  for (const size_t k : {32U, 96U, 160U, 576U}) {
    auto rows = random_floats(10 * k, k, 3.0);
    for (size_t i = 0; i < 32; ++i) rows[i] = 0.0F;
    rows[k + 3] = std::nanf("");
    rows[2 * k + 5] = INFINITY;
    for (size_t i = 0; i < 32; ++i) rows[3 * k + i] *= 1e-32F;
    const Inputs x(stream, rows, k, Kind::Groups);
    const auto bytes = on_host<uint8_t>(stream, x.data);
    for (size_t n = 0; n < 10; ++n) {
      std::vector<int8_t> values(k);
      std::vector<float> scales(k / 32);
      std::vector<float> scaled_sums(k / 32);
      kernels::reference::quantize(&rows[n * k], 1, k, {values.data(), scales.data(), scaled_sums.data(), nullptr});
      for (size_t i = 0; i < k; ++i) {
        const uint8_t* block = bytes.data() + x.view.block_offset(n / 8, i / kBlockK);
        ASSERT_EQ(static_cast<int8_t>(block[x.view.number_offset(n % 8, i % kBlockK)]), values[i]) << n << " " << i;
        float scale = 0.0F;
        float sum = 0.0F;
        std::memcpy(&scale, block + x.view.scale_offset(n % 8, i % kBlockK / 32), sizeof scale);
        std::memcpy(&sum, block + x.view.sum_offset(n % 8, i % kBlockK / 32), sizeof sum);
        const auto same = [](float got, float expected) {  // the sign of a NaN may differ between machines
          return std::isnan(expected) ? std::isnan(got)
                                      : std::bit_cast<uint32_t>(got) == std::bit_cast<uint32_t>(expected);
        };
        ASSERT_TRUE(same(scale, scales[i / 32])) << scale << " is not " << scales[i / 32];
        ASSERT_TRUE(same(sum, scaled_sums[i / 32])) << sum << " is not " << scaled_sums[i / 32];
      }
    }
  }
}

}  // namespace
}  // namespace folio::infer::gpu
