// Tests of load_tile: one tile, several tiles, incomplete tiles, barriers, coalesced loads, and bank conflicts.
#include "experiments/33_cuda/exercises/properties/cuda/run.h"

namespace folio::exercises {
namespace {

Run output_of(const Floats& x, const Floats& w, size_t rows, size_t n_in, size_t n_out) {
  Stream stream(0);
  const DeviceMemory x_memory = on_device(stream, x);
  const DeviceMemory w_memory = on_device(stream, w);
  return run_kernel(stream, rows * n_out, [&](float* out) {
    linear(stream, {x_memory.as<float>(), w_memory.as<float>(), rows, n_in, n_out, out});
  });
}

Floats ramp(size_t n) {
  Floats x(n);
  for (size_t i = 0; i < n; ++i) x[i] = static_cast<float>(i % 1000);
  return x;
}

Floats identity(size_t n) {
  Floats x(n * n, 0.0F);
  for (size_t i = 0; i < n; ++i) x[i * n + i] = 1.0F;
  return x;
}

Floats expected_of(const Floats& x, const Floats& w, size_t rows, size_t n_in, size_t n_out) {
  Floats out(rows * n_out);
  for (size_t row = 0; row < rows; ++row) {
    for (size_t o = 0; o < n_out; ++o) {
      double sum = 0.0;
      for (size_t k = 0; k < n_in; ++k) sum += double{x[row * n_in + k]} * w[o * n_in + k];
      out[row * n_out + o] = static_cast<float>(sum);
    }
  }
  return out;
}

TEST(TileLoad, AWholeTileIsCopied) {
  const Floats x = ramp(size_t{32} * 32);
  expect_close(output_of(x, identity(32), 32, 32, 32).out, x, 0.0,
               "x is 32 × 32 and counts 0, 1, 2, …, and w leaves it as it is. Number 1 is the element of row 0 and "
               "column 1, which thread (1, 0) loads: threadIdx.y is the row in a tile, and threadIdx.x the column.");
}

TEST(TileLoad, TilesFollowOneAnother) {
  const Floats x = random_floats(size_t{32} * 96, 1);
  const Floats w = random_floats(size_t{32} * 96, 2);
  expect_close(output_of(x, w, 32, 96, 32).out, expected_of(x, w, 32, 96, 32), 96 * 0x1p-23,
               "96 inputs are three tiles, one after the other.");
}

TEST(TileLoad, OutsideIsZero) {
  for (const size_t n_in : {20, 40}) {
    const Floats x = random_floats(5 * n_in, 1);
    const Floats w = random_floats(7 * n_in, 2);
    expect_close(output_of(x, w, 5, n_in, 7).out, expected_of(x, w, 5, n_in, 7), 40 * 0x1p-23,
                 "x is 5 × " + std::to_string(n_in) + " and w is 7 × " + std::to_string(n_in) +
                     ", so tiles stick out of both below and on the right. NaN: a place of a tile without an element "
                     "was left as it was, and has to be 0. Another number: the tile of before, or the next row, is in "
                     "such a place.");
  }
}

TEST(TileLoad, AWarpLoadsSideBySide) {
  const Counts counts = output_of(ramp(size_t{32} * 32), identity(32), 32, 32, 32).counts;
  EXPECT_EQ(counts.load_sectors / counts.load_requests, 4U)
      << "The result is right, but this is how many sectors of 32 bytes a warp's load touches. 32 floats side by side "
         "are 4 sectors. With 32, each lane is in a row of its own: threadIdx.x has to be the column.";
}

TEST(TileLoad, NoTwoLanesWaitForABank) {
  const Counts counts = output_of(ramp(size_t{32} * 32), identity(32), 32, 32, 32).counts;
  // Each of the 32 warps makes 2 stores and 64 reads. In each of 32 steps, all lanes read the same element of x, and
  // each lane reads its own element of w.
  constexpr uint64_t kReadsOfW = uint64_t{32} * 32;
  EXPECT_EQ(counts.bank_conflicts / kReadsOfW, 0U)
      << "The result is right and the loads are good, but for this number of turns the other lanes wait when a warp "
         "reads the tile of w down a column. 31: all 32 numbers are in one bank, since rows of 32 numbers begin in the "
         "same one. Choose another kPitch.";
}

}  // namespace
}  // namespace folio::exercises
