#include "experiments/33_cuda/c_transposition.h"

#include "tests/experiments/33_cuda/lesson_support.h"

namespace folio::experiments {
namespace {

TEST(CudaTransposition, AnyShape) {
  Stream stream(0);
  for (const size_t rows : {1U, 31U, 32U, 65U}) {
    for (const size_t columns : {1U, 32U, 33U}) {
      const std::vector<float> in = ramp(rows * columns);
      const DeviceMemory in_of = on_device(stream, in);
      for (auto* run : {transpose_naive, transpose_tiled, transpose_padded}) {
        const auto transposed = [&] {
          const DeviceMemory out = unwritten(stream, in_of.bytes());
          run(stream, {in_of.as<float>(), rows, columns, out.as<float>()});
          return on_host<float>(stream, out);
        };
        if (rows == 65) same_in_all_orders(transposed);
        const std::vector<float> out = transposed();
        for (size_t i = 0; i < in.size(); ++i) EXPECT_EQ(out[i % columns * rows + i / columns], in[i]) << i;
      }
    }
  }
}

// Four tiles of 32 × 32 floats. A row of a tile has 128 bytes, which are four sectors. A column is in 32 sectors.
TEST(CudaTransposition, Counts) {
  Stream stream(0);
  const DeviceMemory in = on_device(stream, ramp(64 * 64));
  const DeviceMemory out = unwritten(stream, in.bytes());
  const auto count = [&](auto run) {
    return counts_of([&] { run(stream, {in.as<float>(), 64, 64, out.as<float>()}); });
  };
  const Counts naive = count(transpose_naive);
  EXPECT_EQ(naive.load_requests, 4U * 32);
  EXPECT_EQ(naive.load_sectors, 4U * 32 * 4);
  EXPECT_EQ(naive.store_requests, 4U * 32);
  EXPECT_EQ(naive.store_sectors, 4U * 32 * 32);
  EXPECT_EQ(naive.distinct_sectors, 2U * 64 * 64 * 4 / 32);
  EXPECT_EQ(naive.shared_requests, 0U);
  for (auto* run : {transpose_tiled, transpose_padded}) {
    const Counts tiled = count(run);
    EXPECT_EQ(tiled.load_sectors, 4U * 32 * 4);
    EXPECT_EQ(tiled.store_sectors, 4U * 32 * 4);
    EXPECT_EQ(tiled.barriers, 4U);
    EXPECT_EQ(tiled.shared_requests, 4U * (32 + 32));  // a store of each row, a load of each column
    EXPECT_EQ(tiled.divergent_branches, 0U);
  }
  // With rows of 32 words, a column is in one bank, and needs 32 wavefronts instead of one.
  EXPECT_EQ(count(transpose_tiled).bank_conflicts, 4U * 32 * 31);
  EXPECT_EQ(count(transpose_padded).bank_conflicts, 0U);
  EXPECT_EQ(count(transpose_padded).shared_bytes, 32U * 33 * 4);
}

}  // namespace
}  // namespace folio::experiments
