// Tests core/formats/llama2c.h: how version 2 rounds, and what is rejected. llama2c_oracle_test.py in tests/apps
// compares the files of each version byte by byte with those of an independent Python writer. model_files_test.cpp
// tests the round trip.
#include "core/formats/llama2c.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/core/model_support.h"

namespace folio::core {
namespace {

using test::llama2c_shapes;
using test::numbered_weights;
using test::read_bytes;
using test::TempDir;
using test::write_bytes;

void write(const std::filesystem::path& path, const Weights& weights, int version) {
  write_llama2c(path, weights.config, weights.views(), version);
}

TEST(Llama2c, Version2RoundsTiesToEvenAndKeepsZeros) {
  const TempDir dir;
  ModelConfig config = llama2c_shapes()[0];
  Weights weights = numbered_weights(config);
  ASSERT_EQ(llama2c_group_size(config), 4);
  const std::vector<float> group{127.0F, 0.5F, -1.5F, 2.5F};  // the quantization step is 127 / 127 = 1
  std::copy(group.begin(), group.end(), weights.tensors[0].begin());
  std::fill_n(weights.tensors[0].begin() + 4, 4, 0.0F);
  write(dir / "m.bin", weights, 2);
  const std::vector<float> read = to_floats(read_llama2c(dir / "m.bin").tensors[0]);
  EXPECT_EQ(std::vector<float>(read.begin(), read.begin() + 8), (std::vector<float>{127, 0, -2, 2, 0, 0, 0, 0}));
}

TEST(Llama2c, Version2ClampsIfTheStepIsSubnormal) {
  const TempDir dir;
  Weights weights = numbered_weights(llama2c_shapes()[0]);
  const float least = std::numeric_limits<float>::denorm_min();
  // The step, 190 / 127 of the smallest subnormal, rounds to the smallest subnormal. So 190 steps are clamped to 127.
  const std::vector<float> group{190 * least, -190 * least, least, 0.0F};
  std::copy(group.begin(), group.end(), weights.tensors[0].begin());
  write(dir / "m.bin", weights, 2);
  const std::vector<float> read = to_floats(read_llama2c(dir / "m.bin").tensors[0]);
  EXPECT_EQ(std::vector<float>(read.begin(), read.begin() + 4),
            (std::vector<float>{127 * least, -127 * least, least, 0.0F}));
}

TEST(Llama2c, Version2RejectsNonFiniteWeights) {
  const TempDir dir;
  for (const float wrong : {HUGE_VALF, -HUGE_VALF, std::numeric_limits<float>::quiet_NaN()}) {
    Weights weights = numbered_weights(llama2c_shapes()[0]);
    weights.tensors[2][7] = wrong;
    EXPECT_ERROR(write(dir / "m.bin", weights, 2), "tensor blk.0.attn_q.weight contains");
    EXPECT_FALSE(std::filesystem::exists(dir / "m.bin"));
  }
}

TEST(Llama2c, RejectsFilesOfAnotherSize) {
  const TempDir dir;
  for (const ModelConfig& config : llama2c_shapes()) {
    for (const int version : {0, 1, 2}) {
      write(dir / "m.bin", numbered_weights(config), version);
      const std::string bytes = read_bytes(dir / "m.bin");
      for (const std::string& wrong : {bytes + '\0', bytes.substr(0, bytes.size() - 1)}) {
        write_bytes(dir / "wrong.bin", wrong);
        EXPECT_ERROR(read_llama2c(dir / "wrong.bin"),
                     fmt::format("{} bytes, but its llama2.c version {} header requires {}", wrong.size(), version,
                                 bytes.size()));
      }
    }
  }
}

TEST(Llama2c, GroupSizeDividesEveryRow) {
  ModelConfig config;
  for (const auto& [dim, hidden, group] :
       {std::tuple{288, 768, 32}, {64, 64, 64}, {128, 352, 32}, {24, 20, 4}, {30, 7, 1}, {512, 1376, 32}}) {
    config.dim = dim;
    config.hidden_dim = hidden;
    EXPECT_EQ(llama2c_group_size(config), group) << dim << " " << hidden;
  }
}

TEST(Llama2c, RejectsOtherThetaAndEpsByName) {
  const TempDir dir;
  ModelConfig config = llama2c_shapes()[0];
  config.rope_theta = 500000.0F;
  EXPECT_ERROR(write(dir / "m.bin", numbered_weights(config), 0),
               "llama2.c fixes rope_theta at 10000, but this model's is 500000; use --format gguf");
  config.rope_theta = 10000.0F;
  config.norm_eps = 1e-6F;
  EXPECT_ERROR(write(dir / "m.bin", numbered_weights(config), 1),
               "llama2.c fixes norm_eps at 1e-5, but this model's is 1e-06; use --format gguf");
  EXPECT_FALSE(std::filesystem::exists(dir / "m.bin"));
}

TEST(Llama2c, RejectsOtherVersionsAndTypes) {
  const TempDir dir;
  const Weights weights = numbered_weights(llama2c_shapes()[0]);
  for (const int version : {-1, 3}) EXPECT_ERROR(write(dir / "m.bin", weights, version), "supported: 0, 1 and 2");
  EXPECT_ERROR(write_llama2c(dir / "m.bin", weights.config, stream_as(weights.views(), DType::F16), 0),
               "token_embd.weight has type F16, but llama2.c requires F32");
  EXPECT_FALSE(std::filesystem::exists(dir / "m.bin"));
}

}  // namespace
}  // namespace folio::core
