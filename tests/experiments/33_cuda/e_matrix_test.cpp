#include "experiments/33_cuda/e_matrix.h"

#include <array>

#include "tests/experiments/33_cuda/lesson_support.h"

namespace folio::experiments {
namespace {

using Multiply = void (*)(Stream&, const MatrixProduct&);

void expect_right(Multiply multiply, size_t rows, size_t inner, size_t columns) {
  Stream stream(0);
  // Small whole numbers: all sums are exact.
  const auto numbers = [](size_t n, size_t factor) {
    std::vector<float> x(n);
    for (size_t i = 0; i < n; ++i) x[i] = static_cast<float>(static_cast<int>(i * factor % 31) - 15);
    return x;
  };
  const std::vector<float> a = numbers(rows * inner, 7);
  const std::vector<float> b = numbers(inner * columns, 11);
  const DeviceMemory a_of = on_device(stream, a);
  const DeviceMemory b_of = on_device(stream, b);
  const auto product = [&] {
    const DeviceMemory c = unwritten(stream, rows * columns * sizeof(float));
    multiply(stream, {a_of.as<float>(), b_of.as<float>(), rows, inner, columns, c.as<float>()});
    return on_host<float>(stream, c);
  };
  same_in_all_orders(product);
  const std::vector<float> c = product();
  for (size_t i = 0; i < c.size(); ++i) {
    float sum = 0.0F;
    for (size_t j = 0; j < inner; ++j) sum += a[i / columns * inner + j] * b[j * columns + i % columns];
    ASSERT_EQ(c[i], sum) << rows << " " << inner << " " << columns << ": " << i;
  }
}

TEST(CudaMatrix, AnyShape) {
  for (const auto& [rows, inner, columns] :
       {std::array<size_t, 3>{1, 1, 1}, {31, 33, 32}, {32, 32, 33}, {33, 31, 65}}) {
    expect_right(matrix_naive, rows, inner, columns);
    expect_right(matrix_tiled, rows, inner, columns);
  }
}

TEST(CudaMatrix, WholeTilesOfRegisters) {
  expect_right(matrix_registers, 64, 16, 64);
  expect_right(matrix_registers, 64, 48, 128);
  expect_right(matrix_registers, 128, 32, 64);
}

// Computes 64 × 64 outputs, each a sum of 32 products.
TEST(CudaMatrix, Counts) {
  Stream stream(0);
  const DeviceMemory a = on_device(stream, ramp(64 * 32));
  const DeviceMemory b = on_device(stream, ramp(32 * 64));
  const DeviceMemory c = unwritten(stream, 64 * 64 * sizeof(float));
  const auto count = [&](Multiply multiply) {
    return counts_of([&] { multiply(stream, {a.as<float>(), b.as<float>(), 64, 32, 64, c.as<float>()}); });
  };
  // Each of 128 warps computes 32 outputs of a row. For each term it loads one element of a and 4 sectors of b.
  const Counts naive = count(matrix_naive);
  EXPECT_EQ(naive.load_requests, 128U * 32 * 2);
  EXPECT_EQ(naive.load_sectors, 128U * 32 * (1 + 4));
  EXPECT_EQ(naive.store_sectors, 128U * 4);
  EXPECT_EQ(naive.multiply_adds, 64U * 64 * 32);
  // Each of 128 warps loads a row of a's tile and one of b's. For each term, it loads two values from shared memory.
  const Counts tiled = count(matrix_tiled);
  EXPECT_EQ(tiled.load_requests, 128U * 2);
  EXPECT_EQ(tiled.load_sectors, 128U * (4 + 4));
  EXPECT_EQ(tiled.shared_requests, 128U * (2 + 32 * 2));
  EXPECT_EQ(tiled.bank_conflicts, 0U);
  EXPECT_EQ(tiled.barriers, 4U * 2);
  EXPECT_EQ(tiled.multiply_adds, naive.multiply_adds);
  EXPECT_EQ(tiled.distinct_sectors, 64U * 32 / 8 * 2 + 64 * 64 / 8);
  // One block of 8 warps. For each of two tiles, a warp loads 512 bytes of a and of b. Then, 16 times, it loads four
  // numbers of each from shared memory.
  const Counts registers = count(matrix_registers);
  EXPECT_EQ(registers.load_requests, 8U * 2 * 2);
  EXPECT_EQ(registers.load_sectors, 8U * 2 * (16 + 16));
  EXPECT_EQ(registers.store_sectors, 8U * 4 * 16);
  EXPECT_EQ(registers.shared_requests, 8U * 2 * (2 + 16 + 16));
  EXPECT_EQ(registers.bank_conflicts, 0U);
  EXPECT_EQ(registers.barriers, 2U * 2);
  EXPECT_EQ(registers.multiply_adds, naive.multiply_adds);
}

}  // namespace
}  // namespace folio::experiments
