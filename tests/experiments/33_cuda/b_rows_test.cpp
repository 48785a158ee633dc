#include "experiments/33_cuda/b_rows.h"

#include <cmath>

#include "tests/experiments/33_cuda/lesson_support.h"

namespace folio::experiments {
namespace {

constexpr float kEps = 1e-5F;

TEST(CudaRows, AnyShape) {
  Stream stream(0);
  for (const size_t rows : {1U, 3U, 257U}) {
    for (const size_t dim : {1U, 255U, 257U}) {
      const std::vector<float> x = ramp(rows * dim);
      const std::vector<float> weight = ramp(dim);
      const DeviceMemory x_of = on_device(stream, x);
      const DeviceMemory weight_of = on_device(stream, weight);
      for (auto* run : {norm_threads, norm_shared, norm_shuffles}) {
        const auto norm = [&] {
          const DeviceMemory out = unwritten(stream, x_of.bytes());
          run(stream, {x_of.as<float>(), weight_of.as<float>(), kEps, rows, dim, out.as<float>()});
          return on_host<float>(stream, out);
        };
        if (rows == 3) same_in_all_orders(norm);
        const std::vector<float> y = norm();
        for (size_t row = 0; row < rows; ++row) {
          double sum = 0.0;
          for (size_t i = 0; i < dim; ++i) sum += double{x[row * dim + i]} * x[row * dim + i];
          const double inverse = 1.0 / std::sqrt(sum / static_cast<double>(dim) + kEps);
          for (size_t i = 0; i < dim; ++i) EXPECT_NEAR(y[row * dim + i], x[row * dim + i] * inverse * weight[i], 1e-5);
        }
      }
    }
  }
}

// 32 rows of 256 floats. The lanes of a warp read elements of 32 rows in norm_threads, and of one row in the other
// kernels.
TEST(CudaRows, Counts) {
  Stream stream(0);
  const DeviceMemory x = on_device(stream, ramp(32 * 256));
  const DeviceMemory weight = on_device(stream, ramp(256));
  const DeviceMemory out = unwritten(stream, x.bytes());
  const auto count = [&](auto run) {
    return counts_of([&] { run(stream, {x.as<float>(), weight.as<float>(), kEps, 32, 256, out.as<float>()}); });
  };
  // One warp. For each column, it loads x for the sum (32 sectors), x to scale it (32), and a shared weight (1).
  const Counts threads = count(norm_threads);
  EXPECT_EQ(threads.load_requests, 768U);
  EXPECT_EQ(threads.load_sectors, 256U * (32 + 32 + 1));
  EXPECT_EQ(threads.store_sectors, 256U * 32);
  EXPECT_EQ(threads.barriers, 0U);
  // For each row, 8 warps load 4 sectors three times: x for the sum, x to scale it, and the weights.
  const Counts shared = count(norm_shared);
  EXPECT_EQ(shared.load_requests, 32U * 8 * 3);
  EXPECT_EQ(shared.load_sectors, 32U * 8 * 3 * 4);
  EXPECT_EQ(shared.store_sectors, 32U * 8 * 4);
  EXPECT_EQ(shared.distinct_sectors, 2 * 32U * 32 + 32);
  EXPECT_EQ(shared.barriers, 32U * 9);  // before the halvings at 128, 64, …, 1, and at the end
  // 8 warps store sums. In the 8 halvings, 4 warps, then 2, and then six times 1 warp load twice and store once.
  // Finally, 8 warps load the sum.
  EXPECT_EQ(shared.shared_requests, 32U * (8 + 3 * (4 + 2 + 6) + 8));
  EXPECT_EQ(shared.bank_conflicts, 0U);
  EXPECT_EQ(shared.divergent_branches, 32U * 5);  // at 16, 8, 4, 2 and 1, only some lanes add
  EXPECT_EQ(shared.shared_bytes, 1024U);
  const Counts shuffles = count(norm_shuffles);
  EXPECT_EQ(shuffles.load_sectors, shared.load_sectors);
  EXPECT_EQ(shuffles.barriers, 32U);
  EXPECT_EQ(shuffles.shuffles, 32U * 8 * 10);  // five in each warp for its sum, five for the sum of sums
  EXPECT_EQ(shuffles.shared_requests, 32U * (8 + 8));
}

}  // namespace
}  // namespace folio::experiments
