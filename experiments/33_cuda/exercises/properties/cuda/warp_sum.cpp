// Tests of warp_sum: every lane of each warp gets the sum of the warp's 32 lanes, in five shuffles.
#include <algorithm>

#include "experiments/33_cuda/exercises/properties/cuda/run.h"

namespace folio::exercises {
namespace {

Run sums_of(const Floats& x) {
  Stream stream(0);
  const DeviceMemory numbers = on_device(stream, x);
  return run_kernel(stream, x.size(), [&](float* out) { warp_sums(stream, numbers.as<float>(), x.size() / 32, out); });
}

TEST(WarpSum, AllLanesAreAdded) {
  expect_close({sums_of(Floats(32, 1.0F)).out[0]}, {32.0F}, 0.0,
               "This is lane 0's sum of 32 ones. 16: only half of the lanes are in it. 64: the distance begins at 32, "
               "where no lane is, so each lane adds its own number again. 1: the other lane's number replaces the own "
               "one, and is not added to it.");
}

TEST(WarpSum, EveryLaneHasTheSum) {
  Floats x(32);
  for (size_t i = 0; i < 32; ++i) x[i] = static_cast<float>(i + 1);
  expect_close(sums_of(x).out, Floats(32, 528.0F), 0.0,
               "The lanes have 1 to 32, and each needs their sum. __shfl_down_sync gives a lane the number of a higher "
               "one, so that only lane 0 has all; with __shfl_xor_sync both lanes of a pair add the other's.");
}

TEST(WarpSum, WarpsAreApart) {
  Floats x(128, 1.0F);
  std::fill(x.begin() + 32, x.begin() + 64, 10.0F);
  Floats expected(128, 32.0F);
  std::fill(expected.begin() + 32, expected.begin() + 64, 320.0F);
  expect_close(sums_of(x).out, expected, 0.0,
               "Four warps, of which the second has 32 times 10 and the others 32 times 1. A block has two of them. "
               "Are the other warp's numbers in this sum?");
}

TEST(WarpSum, FiveShufflesAreEnough) {
  EXPECT_EQ(sums_of(Floats(32, 1.0F)).counts.shuffles, 5U)
      << "The sums are right, but this is how many shuffles the warp executes. Each step can double the number of "
         "lanes in a sum: 2, 4, 8, 16, 32.";
}

}  // namespace
}  // namespace folio::exercises
