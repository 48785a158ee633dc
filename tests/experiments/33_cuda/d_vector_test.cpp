#include "experiments/33_cuda/d_vector.h"

#include "core/float16.h"
#include "tests/experiments/33_cuda/lesson_support.h"

namespace folio::experiments {
namespace {

// Fixture for matrix-vector products. A weight is q · scale, with q from -100 to 100 and a scale from 1/128 to 4/128,
// which is exact in F32.
class CudaVector : public ::testing::Test {
 protected:
  void make(size_t rows, size_t columns) {
    rows_ = rows;
    columns_ = columns;
    std::vector<int8_t> quants(rows * columns);
    std::vector<uint16_t> scales(rows * columns / 32);
    std::vector<float> weights(quants.size());
    const std::vector<float> x = ramp(columns);
    expected_.assign(rows, 0.0);
    magnitude_.assign(rows, 0.0);
    for (size_t i = 0; i < scales.size(); ++i) scales[i] = core::float_to_f16(static_cast<float>(1 + i % 4) / 128);
    for (size_t i = 0; i < quants.size(); ++i) {
      quants[i] = static_cast<int8_t>(static_cast<int>(i * 37 % 201) - 100);
      weights[i] = static_cast<float>(quants[i]);
      if (!scales.empty()) weights[i] *= core::f16_to_float(scales[i / 32]);
      expected_[i / columns] += double{weights[i]} * x[i % columns];
      magnitude_[i / columns] += std::abs(double{weights[i]} * x[i % columns]);
    }
    weights_of_ = on_device(stream_, weights);
    quants_of_ = on_device(stream_, quants);
    scales_of_ = on_device(stream_, scales);
    x_of_ = on_device(stream_, x);
  }
  [[nodiscard]] VectorProduct product(float* out) const {
    return {weights_of_.as<float>(), x_of_.as<float>(), rows_, columns_, out};
  }
  void expect_right(const std::function<void(float*)>& run) {
    const std::vector<float> out = outputs_of(stream_, rows_, true, run);
    const double bound = static_cast<double>(columns_ + 1) * 0x1p-24;
    for (size_t i = 0; i < rows_; ++i) EXPECT_LE(std::abs(out[i] - expected_[i]), bound * magnitude_[i]) << i;
  }

  Stream stream_{0};
  size_t rows_ = 0;
  size_t columns_ = 0;
  std::vector<double> expected_;
  std::vector<double> magnitude_;
  DeviceMemory weights_of_, quants_of_, scales_of_, x_of_;
};

TEST_F(CudaVector, AnyShape) {
  for (const size_t rows : {1U, 8U, 257U}) {
    for (const size_t columns : {1U, 31U, 33U}) {
      make(rows, columns);
      expect_right([&](float* out) { product_threads(stream_, product(out)); });
      expect_right([&](float* out) { product_warps(stream_, product(out)); });
    }
  }
}

TEST_F(CudaVector, QuantsOfAnyNumberOfRowsAndGroups) {
  for (const size_t rows : {1U, 9U}) {
    for (const size_t columns : {32U, 96U, 128U, 160U}) {
      make(rows, columns);
      expect_right([&](float* out) {
        product_quants(stream_,
                       {quants_of_.as<int8_t>(), scales_of_.as<uint16_t>(), x_of_.as<float>(), rows, columns, out});
      });
    }
  }
}

}  // namespace
}  // namespace folio::experiments
