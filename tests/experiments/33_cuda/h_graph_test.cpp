#include "experiments/33_cuda/h_graph.h"

#include <cmath>

#include "tests/experiments/33_cuda/lesson_support.h"

namespace folio::experiments {
namespace {

/// A feed-forward block (norm, SwiGLU, residual) in device memory. expected() computes its output on the host.
struct Network {
  Network(Stream& stream, size_t dim, size_t hidden) : dim(dim), hidden(hidden) {
    x = on_device(stream, ramp(dim));
    weight = on_device(stream, ramp(dim));
    gate = on_device(stream, ramp(hidden * dim));
    up = on_device(stream, ramp(hidden * dim));
    down = on_device(stream, ramp(dim * hidden));
    normed = unwritten(stream, dim * sizeof(float));
    gated = unwritten(stream, hidden * sizeof(float));
    upped = unwritten(stream, hidden * sizeof(float));
    branch = unwritten(stream, dim * sizeof(float));
    out = unwritten(stream, dim * sizeof(float));
    view = {x.as<float>(),
            weight.as<float>(),
            gate.as<float>(),
            up.as<float>(),
            down.as<float>(),
            1e-5F,
            dim,
            hidden,
            normed.as<float>(),
            gated.as<float>(),
            upped.as<float>(),
            branch.as<float>(),
            out.as<float>()};
  }

  [[nodiscard]] std::vector<double> expected(const std::vector<float>& row) const {
    const std::vector<float> norms = ramp(dim);
    const std::vector<float> matrix = ramp(hidden * dim);  // gate, up and down have the same values
    double squares = 0.0;
    for (const float v : row) squares += double{v} * v;
    std::vector<double> result(row.begin(), row.end());
    for (size_t h = 0; h < hidden; ++h) {
      double product = 0.0;
      for (size_t i = 0; i < dim; ++i) {
        product += matrix[h * dim + i] * row[i] / std::sqrt(squares / static_cast<double>(dim) + 1e-5) * norms[i];
      }
      const double activated = product / (1.0 + std::exp(-product)) * product;
      for (size_t i = 0; i < dim; ++i) result[i] += matrix[i * hidden + h] * activated;
    }
    return result;
  }

  size_t dim, hidden;
  DeviceMemory x, weight, gate, up, down, normed, gated, upped, branch, out;
  FeedForward view;
};

void expect_near(const std::vector<float>& y, const std::vector<double>& expected) {
  for (size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(y[i], expected[i], 1e-4 * (1 + std::abs(expected[i]))) << i;
}

TEST(CudaGraph, AnyShape) {
  Stream stream(0);
  for (const size_t dim : {1U, 31U, 257U}) {
    for (const size_t hidden : {1U, 8U, 33U}) {
      const Network n(stream, dim, hidden);
      for (auto* run : {feed_forward_launches, feed_forward_fused}) {
        const auto forward = [&] {
          stream.fill(n.out.as<float>(), 0xFF, n.out.bytes());
          run(stream, n.view);
          return on_host<float>(stream, n.out);
        };
        if (dim == 31) same_in_all_orders(forward);
        expect_near(forward(), n.expected(ramp(dim)));
      }
    }
  }
}

// Recording executes no kernel. A replay reads the values that are in memory when it runs.
TEST(CudaGraph, Replays) {
  Stream stream(0);
  const Network n(stream, 64, 32);
  std::unique_ptr<infer::gpu::Recording> recording;
  const Counts recorded = counts_of([&] {
    stream.begin_recording();
    feed_forward_launches(stream, n.view);
    recording = std::make_unique<infer::gpu::Recording>(stream.end_recording());
  });
  EXPECT_EQ(recorded.launches, 0U);
  EXPECT_TRUE(std::isnan(on_host<float>(stream, n.out)[0]));
  for (const float scale : {1.0F, -3.0F}) {
    std::vector<float> row = ramp(64);
    for (float& v : row) v = v * scale + 0.5F;
    stream.copy_in(n.x.as<float>(), row.data(), n.x.bytes());
    EXPECT_EQ(counts_of([&] { stream.run(*recording); }).launches, 6U);
    expect_near(on_host<float>(stream, n.out), n.expected(row));
  }
}

// With dim = 64 and hidden = 32, a vector has 8 or 4 sectors, and a matrix has 256. A warp loads a row of 64 in two
// requests.
TEST(CudaGraph, Counts) {
  Stream stream(0);
  const Network n(stream, 64, 32);
  const Counts launched = counts_of([&] { feed_forward_launches(stream, n.view); });
  EXPECT_EQ(launched.launches, 6U);
  EXPECT_EQ(launched.blocks, 1U + 4 + 4 + 1 + 8 + 1);
  // The norm loads x twice, and its weight. Each output of gate and up loads a row and `normed`. SwiGLU loads two
  // vectors. Each output of down loads a row of 32 and SwiGLU's result. The addition loads two vectors.
  EXPECT_EQ(launched.load_requests, 3U * 2 + 2 * 32 * 4 + 2 + 64 * 2 + 2 * 2);
  EXPECT_EQ(launched.store_requests, 2U + 2 * 32 + 1 + 64 + 2);
  EXPECT_EQ(launched.distinct_sectors, 3 * 256U + 9 * 8 + 6 * 4);
  EXPECT_EQ(launched.multiply_adds, 64U + 3 * 64 * 32 + 32 * 8);  // squares; three products; 8 for each e^x
  const Counts fused = counts_of([&] { feed_forward_fused(stream, n.view); });
  EXPECT_EQ(fused.launches, 2U);
  // First launch: two warps of each of 4 blocks load x for the norm. Then 32 warps load x, the norm's weight, and a row
  // of gate and of up. Second launch: each of 64 outputs loads a row of down, SwiGLU's result and x.
  EXPECT_EQ(fused.load_requests, 4U * 2 + 32 * 2 * 4 + 64 * 2 + 64);
  EXPECT_EQ(fused.store_requests, 32U + 64);
  EXPECT_EQ(fused.distinct_sectors, 3 * 256U + 4 * 8 + 2 * 4);
}

}  // namespace
}  // namespace folio::experiments
