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
    const auto f = [](const DeviceMemory& memory) { return memory.as<float>(); };
    view = {f(x),   f(weight), f(gate),  f(up),    f(down),   1e-5F, dim,
            hidden, f(normed), f(gated), f(upped), f(branch), f(out)};
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
        const auto y = outputs_of(stream, dim, dim == 31, [&](float* out) {
          FeedForward f = n.view;
          f.out = out;
          run(stream, f);
        });
        expect_near(y, n.expected(ramp(dim)));
      }
    }
  }
}

// Recording executes no kernel. A replay reads the values that are in memory when it runs.
TEST(CudaGraph, Replays) {
  Stream stream(0);
  const Network n(stream, 64, 32);
  infer::gpu::Recording recording;
  const auto record = [&] { recording = stream.record([&] { feed_forward_launches(stream, n.view); }); };
  EXPECT_EQ(counts_of(record).launches, 0U);
  EXPECT_TRUE(std::isnan(on_host<float>(stream, n.out)[0]));
  for (const float scale : {1.0F, -3.0F}) {
    std::vector<float> row = ramp(64);
    for (float& v : row) v = v * scale + 0.5F;
    stream.copy_in(n.x.as<float>(), row.data(), n.x.bytes());
    EXPECT_EQ(counts_of([&] { stream.run(recording); }).launches, 6U);
    expect_near(on_host<float>(stream, n.out), n.expected(row));
  }
}

}  // namespace
}  // namespace folio::experiments
