#include "experiments/33_cuda/cards.h"

#include <gtest/gtest.h>

namespace folio::experiments {
namespace {

// Expected values are computed by hand from the limits of an H100's multiprocessor: 64 warps, 32 blocks, 65,536
// registers and 228 KiB of shared memory.
TEST(CudaCards, OccupancyIsTheTightestLimit) {
  const Card& h100 = cards()[2];
  const auto expect = [&](unsigned threads, unsigned registers, size_t shared, unsigned warps, const char* limit) {
    const Occupancy o = occupancy(h100, threads, registers, shared);
    EXPECT_EQ(o.warps, warps);
    EXPECT_EQ(o.limit, limit);
  };
  expect(256, 32, 0, 64, "threads");    // 8 blocks of 8 warps
  expect(32, 32, 0, 32, "blocks");      // 32 blocks of a warp
  expect(256, 64, 0, 32, "registers");  // 65,536 / (64 · 256) = 4 blocks
  expect(256, 33, 0, 48, "registers");  // 33 are allocated as 40: 12 warps in each of 4 partitions, 6 blocks
  expect(128, 32, size_t{48} << 10U, 16, "shared");          // 228 KiB / (48 + 1 reserved): 4 blocks of 4 warps
  EXPECT_EQ(occupancy(cards()[1], 1024, 32, 0).warps, 32U);  // the RTX 4090's 48 warps hold one block of 32
}

TEST(CudaCards, BoundIsTheLongerOfMemoryAndArithmetic) {
  infer::gpu::host::Counts counts;
  counts.distinct_sectors = 3'350'000'000 / 32;
  EXPECT_NEAR(bound(cards()[2], counts).seconds(), 1e-3, 1e-9);
  counts.multiply_adds = 67'000'000'000'000;
  EXPECT_NEAR(bound(cards()[2], counts).arithmetic, 2.0, 1e-9);
  EXPECT_NEAR(bound(cards()[2], counts).seconds(), 2.0, 1e-9);
}

TEST(CudaCards, RegistersAreThoseOfTheTables) {
  EXPECT_EQ(registers_of("embed.cu:add_numbers"), 10U);
  EXPECT_TRUE(registers_of("a_elements.cu:elements").has_value());
  EXPECT_FALSE(registers_of("embed.cu:no_kernel").has_value());
}

}  // namespace
}  // namespace folio::experiments
