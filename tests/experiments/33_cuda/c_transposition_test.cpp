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
        const auto y = outputs_of(stream, in.size(), rows == 65, [&](float* out) {
          run(stream, {in_of.as<float>(), rows, columns, out});
        });
        for (size_t i = 0; i < in.size(); ++i) EXPECT_EQ(y[i % columns * rows + i / columns], in[i]) << i;
      }
    }
  }
}

}  // namespace
}  // namespace folio::experiments
