// Tests core/formats/llama2c.h: versions 0 and 1 keep every bit, version 2 rounds to 8 bits, bad files are rejected.
#include "core/formats/llama2c.h"

#include <gtest/gtest.h>

#include <cfenv>
#include <cmath>
#include <limits>

#include "tests/core/model_support.h"

namespace folio::core {
namespace {

using test::bytes_of;
using test::llama2c_shapes;
using test::numbered_weights;
using test::raw;
using test::read_bytes;
using test::TempDir;
using test::write_bytes;

void write(const std::filesystem::path& path, const Weights& weights, int version) {
  write_llama2c(path, weights.config, weights.views(), version);
}

// Returns the size of a file that llama2.c's export.py writes, computed from the configuration.
uint64_t published_bytes(const ModelConfig& c, int version) {
  const auto u = [](int64_t n) { return static_cast<uint64_t>(n); };
  const uint64_t norms = u(2 * c.n_layers * c.dim + c.dim);
  const uint64_t matrices = u(c.vocab_size * c.dim * (c.tie_embeddings ? 1 : 2)) +
                            u(c.n_layers) * u(2 * c.dim * c.dim + 2 * c.dim * c.kv_dim() + 3 * c.dim * c.hidden_dim);
  if (version == 0) return 28 + 4 * (norms + matrices + u(c.context_length * c.head_dim));
  if (version == 1) return 256 + 4 * (norms + matrices);
  return 256 + 4 * norms + matrices + 4 * matrices / u(llama2c_group_size(c));
}

TEST(Llama2c, Versions0And1KeepEveryBit) {
  const TempDir dir;
  for (const ModelConfig& config : llama2c_shapes()) {
    Weights weights = numbered_weights(config);
    weights.tensors[1][0] = std::numeric_limits<float>::quiet_NaN();
    weights.tensors[2][0] = -HUGE_VALF;
    weights.tensors[3][0] = std::numeric_limits<float>::denorm_min();
    for (const int version : {0, 1}) {
      write(dir / "m.bin", weights, version);
      const StoredModel read = read_llama2c(dir / "m.bin");
      EXPECT_EQ(read.config, config) << describe_difference(config, read.config);
      EXPECT_EQ(format_name(read.format), fmt::format("llama2.c v{}", version));
      EXPECT_EQ(bytes_of(read.tensors), bytes_of(weights.views())) << "version " << version;
      const auto manifest = tensor_manifest(config);
      for (size_t i = 0; i < manifest.size(); ++i) {
        EXPECT_EQ(read.tensors[i].name, manifest[i].gguf_name);
        EXPECT_EQ(read.tensors[i].shape, manifest[i].shape);
      }
    }
  }
}

TEST(Llama2c, Version2RoundsWithinHalfAStepAndKeepsNorms) {
  const TempDir dir;
  for (const ModelConfig& config : llama2c_shapes()) {
    const Weights weights = numbered_weights(config);
    write(dir / "m.bin", weights, 2);
    const StoredModel read = read_llama2c(dir / "m.bin");
    EXPECT_EQ(read.config, config);
    const auto group = static_cast<size_t>(llama2c_group_size(config));
    for (size_t i = 0; i < read.tensors.size(); ++i) {
      const std::vector<float> values = to_floats(read.tensors[i]);
      const std::vector<float>& from = weights.tensors[i];
      if (read.tensors[i].shape.size() == 1) {
        EXPECT_EQ(values, from) << read.tensors[i].name;
        continue;
      }
      for (size_t begin = 0; begin < from.size(); begin += group) {
        float largest = 0.0F;
        for (size_t k = begin; k < begin + group; ++k) largest = std::max(largest, std::abs(from[k]));
        const double step = static_cast<double>(largest) / 127.0;
        for (size_t k = begin; k < begin + group; ++k) {
          // The bound is half a quantization step, plus the rounding errors of scale, quotient and product.
          ASSERT_LE(std::abs(static_cast<double>(values[k]) - from[k]), step * (0.5 + 127 * 3 * 0x1p-24))
              << read.tensors[i].name;
        }
      }
    }
  }
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
  // The step, 190 / 127 of the smallest float, rounds to the smallest float. So a value of 190 steps is clamped to 127.
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

TEST(Llama2c, FilesHaveTheSpecifiedSize) {
  const TempDir dir;
  for (const ModelConfig& config : llama2c_shapes()) {
    for (const int version : {0, 1, 2}) {
      write(dir / "m.bin", numbered_weights(config), version);
      const std::string bytes = read_bytes(dir / "m.bin");
      ASSERT_EQ(bytes.size(), published_bytes(config, version)) << "version " << version;
      for (const std::string& wrong : {bytes + '\0', bytes.substr(0, bytes.size() - 1)}) {
        write_bytes(dir / "wrong.bin", wrong);
        EXPECT_ERROR(read_llama2c(dir / "wrong.bin"),
                     std::to_string(wrong.size()) + " bytes, but its llama2.c version " + std::to_string(version) +
                         " header requires " + std::to_string(bytes.size()));
      }
    }
  }
}

TEST(Llama2c, HeaderStoresWhetherTheOutputIsTied) {
  const TempDir dir;
  ModelConfig config = llama2c_shapes()[0];
  for (const bool tied : {true, false}) {
    config.tie_embeddings = tied;
    write(dir / "v0.bin", numbered_weights(config), 0);
    EXPECT_EQ(read_bytes(dir / "v0.bin").substr(20, 4), raw<int32_t>(tied ? 11 : -11));
    write(dir / "v1.bin", numbered_weights(config), 1);
    EXPECT_EQ(read_bytes(dir / "v1.bin").substr(28, 4), raw<int32_t>(11));
    EXPECT_EQ(read_bytes(dir / "v1.bin")[36], tied ? 1 : 0);
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
