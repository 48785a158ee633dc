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
        const auto y = outputs_of(stream, x.size(), rows == 3, [&](float* out) {
          run(stream, {x_of.as<float>(), weight_of.as<float>(), kEps, rows, dim, out});
        });
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

}  // namespace
}  // namespace folio::experiments
