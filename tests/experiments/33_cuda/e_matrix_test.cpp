#include "experiments/33_cuda/e_matrix.h"

#include <array>

#include "tests/experiments/33_cuda/lesson_support.h"

namespace folio::experiments {
namespace {

using Multiply = void (*)(Stream&, const MatrixProduct&);

void expect_right(Multiply multiply, size_t rows, size_t inner, size_t columns) {
  Stream stream(0);
  // The values are small integers, so that all sums are exact.
  const auto numbers = [](size_t n, size_t factor) {
    std::vector<float> x(n);
    for (size_t i = 0; i < n; ++i) x[i] = static_cast<float>(static_cast<int>(i * factor % 31) - 15);
    return x;
  };
  const std::vector<float> a = numbers(rows * inner, 7);
  const std::vector<float> b = numbers(inner * columns, 11);
  const DeviceMemory a_of = on_device(stream, a);
  const DeviceMemory b_of = on_device(stream, b);
  const auto c = outputs_of(stream, rows * columns, true, [&](float* out) {
    multiply(stream, {a_of.as<float>(), b_of.as<float>(), rows, inner, columns, out});
  });
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

}  // namespace
}  // namespace folio::experiments
