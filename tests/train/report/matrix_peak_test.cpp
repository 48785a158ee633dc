#include "train/report/matrix_peak.h"

#include <gtest/gtest.h>
#include <torch/utils.h>

#include "train/config/train_config.h"

namespace folio::train {
namespace {

TEST(MatrixPeak, FlopsPerTokenMatchTheFormula) {
  core::ModelConfig c = preset("tiny").model;  // 812,416 parameters, 4 layers, 4 heads of 32, tied embeddings
  c.vocab_size = 66;
  EXPECT_EQ(operations_per_token(c, 256), 6.0 * 812416 + 12.0 * 4 * 128 * 256);
  EXPECT_EQ(operations_per_token(c, 64), 6.0 * 812416 + 12.0 * 4 * 128 * 64);
  c.tie_embeddings = false;  // adds an embedding matrix, whose lookup takes no FLOPs
  EXPECT_EQ(operations_per_token(c, 256), 6.0 * 812416 + 12.0 * 4 * 128 * 256);
}

TEST(MatrixPeak, MeasurementKeepsTheRandomState) {
  torch::manual_seed(5);
  const torch::Tensor expected = torch::randn({4});
  for (const Precision dtype : {Precision::F32, Precision::Bf16}) {
    torch::manual_seed(5);
    const MatrixPeak peak = matrix_peak(dtype, torch::kCPU);
    EXPECT_GT(peak.operations_per_s, 1e8) << name_of(dtype);  // every machine is faster than this
    EXPECT_GE(peak.size, 512);
    EXPECT_TRUE(torch::equal(torch::randn({4}), expected));
  }
}

}  // namespace
}  // namespace folio::train
