// Tests of matmul: overwriting of the output, indices and sizes of both operands, and equality with the reference.
#include "experiments/exercises/engine/kernels.h"
#include "experiments/exercises/properties/check.h"
#include "experiments/exercises/properties/engine/reference.h"

namespace folio::exercises {
namespace {

Floats product(const Floats& x, const Floats& weight, size_t n_rows) {
  const size_t n_in = x.size() / n_rows;
  const size_t n_out = weight.size() / n_in;
  Floats out(n_rows * n_out, -99.0F);
  matmul(x.data(), weight.data(), n_rows, n_in, n_out, out.data());
  return out;
}

TEST(MatMul, WhatStoodInTheOutputIsForgotten) {
  expect_close(product({3.0F}, {2.0F}, 1), {6.0F}, 0.0,
               "3 times 2. -93 is what adding to the output gives: -99 stood there. Begin each sum at 0.");
}

TEST(MatMul, AllNumbersOfARowCount) {
  expect_close(product({1.0F, 10.0F, 100.0F}, {1.0F, 2.0F, 3.0F}, 1), {321.0F}, 0.0,
               "1 * 1 + 10 * 2 + 100 * 3. If a part is missing, the sum begins too late or ends too early.");
}

TEST(MatMul, AnOutputBelongsToARowOfTheWeight) {
  expect_close(product({1.0F, 10.0F}, {1.0F, 2.0F, 3.0F, 4.0F}, 1), {21.0F, 43.0F}, 0.0,
               "The rows of the weight are (1, 2) and (3, 4). 31 and 42 are what its columns (1, 3) and (2, 4) give: "
               "the weight was read transposed.");
}

TEST(MatMul, TheWeightNeedNotBeSquare) {
  expect_close(product({1.0F, 10.0F, 100.0F}, {1.0F, 2.0F, 3.0F, 4.0F, 5.0F, 6.0F}, 1), {321.0F, 654.0F}, 0.0,
               "A row of the weight has n_in numbers, here 3, so row r begins at r * n_in and not at r * n_out.");
}

TEST(MatMul, EveryRowOfTheInputIsMultiplied) {
  expect_close(product({1.0F, 10.0F, 2.0F, 20.0F}, {1.0F, 2.0F, 3.0F, 4.0F}, 2), {21.0F, 43.0F, 42.0F, 86.0F}, 0.0,
               "The second row of x is twice the first, so the second row of the output is, too. If it is equal to "
               "the first, x was not advanced by its row.");
}

TEST(MatMul, TheInputsRowsAreAsLongAsTheWeights) {
  expect_close(product({1.0F, 10.0F, 2.0F, 20.0F, 3.0F, 30.0F}, {1.0F, 2.0F}, 3), {21.0F, 42.0F, 63.0F}, 0.0,
               "A row of x has n_in numbers, here 2, so it begins at row * n_in; a row of the output has n_out, here "
               "1, and begins at row * n_out.");
}

// Tolerance: |weight| is below 1, so the tested sum and the reference's each have a rounding error below
// n_in * 2^-24 * Σ|x_i|.
TEST(MatMul, EqualsTheReference) {
  for (const size_t n_in : {1, 5, 64, 1500}) {
    const Floats x = random_floats(4 * n_in, 1);
    const Floats weight = random_floats(9 * n_in, 2);
    Floats expected(4 * 9);
    reference::matmul(x.data(), weight.data(), 4, n_in, 9, expected.data());
    double tolerance = 0.0;
    for (size_t r = 0; r < 4; ++r) {
      double sum = 0.0;
      for (size_t i = 0; i < n_in; ++i) sum += std::abs(x[r * n_in + i]);
      tolerance = std::max(tolerance, 2.0 * sum * static_cast<double>(n_in) * 0x1p-24);
    }
    expect_close(product(x, weight, 4), expected, tolerance,
                 "4 rows of " + std::to_string(n_in) + " numbers, 9 outputs.");
  }
}

}  // namespace
}  // namespace folio::exercises
