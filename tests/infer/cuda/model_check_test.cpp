// Tests model_check on the emulated GPU: logits are within the bound for each family, type of weights and KV cache, on
// random models and on a layer of a published model. A machine with larger rounding errors is detected.
#include "tests/infer/cuda/model_check.h"

#include <algorithm>
#include <filesystem>

#include "core/formats/model_files.h"
#include "infer/cuda/cuda.h"
#include "tests/infer/cuda/support.h"
#include "tests/infer/support.h"

namespace folio::infer::test {
namespace {

using core::DType;

// Returns a small Llama whose widths are multiples of 32, the block size of types such as Q4_1.
Shape small(DType type) {
  return {std::string("small_") + std::string(core::info(type).name),
          {.vocab_size = 61,
           .dim = 64,
           .n_layers = 2,
           .n_heads = 4,
           .n_kv_heads = 2,
           .hidden_dim = 128,
           .context_length = 128,
           .tie_embeddings = false},
          type};
}

// Returns models of every family, one of them with scaled RoPE, and two Llamas for further weight types.
std::vector<Shape> checked_shapes() {
  std::vector<Shape> shapes = part_shapes();
  Shape& olmo2 = *std::ranges::find(shapes, "olmo2", &Shape::name);
  olmo2.config.rope_scaling = {.type = core::RopeScalingType::Yarn,
                               .factor = 4.0F,
                               .high_freq_factor = 32.0F,
                               .original_context = 32,
                               .magnitude = 1.3F};
  for (const auto& more :
       {expert_shapes(), latent_shapes(), std::vector<Shape>{small(DType::BF16), small(DType::Q4_1)}}) {
    shapes.insert(shapes.end(), more.begin(), more.end());
  }
  return shapes;
}

class CheckModels : public ::testing::TestWithParam<Shape> {};

INSTANTIATE_TEST_SUITE_P(Shapes, CheckModels, ::testing::ValuesIn(checked_shapes()), shape_name);

TEST_P(CheckModels, GpuIsWithinTheBound) {
  const core::StoredModel model = random_model_of(GetParam());
  for (const CacheType cache_type : {CacheType::F32, CacheType::F16}) {
    const auto machine = make_cuda({});
    const CheckResult result = check_model(model, *machine, random_tokens(50, 3, model.config.vocab_size),
                                           {.cache_type = cache_type, .n_drawn = 10, .n_runs = 4, .n_threads = 1});
    EXPECT_EQ(result.n_positions, 60U);
    EXPECT_TRUE(result.holds()) << result.to_string();
    std::printf("%s\n", result.to_string().c_str());
  }
}

// A GPU that ignores the model passed to load() and loads the weights of `model`.
class Swapped final : public Machine {
 public:
  explicit Swapped(const core::StoredModel& model) : model_(model), inner_(make_cuda({})) {}
  [[nodiscard]] std::string describe() const override { return inner_->describe(); }
  [[nodiscard]] std::unique_ptr<Stage> load(const core::StoredModel& /*model*/, const Shard& shard,
                                            CacheType cache_type) override {
    return inner_->load(model_, shard, cache_type);
  }

 private:
  const core::StoredModel& model_;
  std::unique_ptr<Machine> inner_;
};

// The machine's weights are rounded to 8 bits (BF16) instead of 11 (F16), a larger error than the kernels may have.
TEST(ModelCheck, DetectsExcessiveRounding) {
  const core::StoredModel model = random_model_of(small(DType::F16));
  core::StoredModel rounded = model;
  std::vector<std::vector<std::byte>> bytes;
  const core::TensorStream stream = core::stream_as(model.tensors, DType::BF16);
  for (size_t i = 0; i < rounded.tensors.size(); ++i) {
    const auto some = stream.bytes(i);
    bytes.emplace_back(some.begin(), some.end());
    rounded.tensors[i].type = stream.tensors[i].type;
    rounded.tensors[i].bytes = bytes.back();
  }
  Swapped machine(rounded);
  const CheckResult result = check_model(model, machine, random_tokens(40, 3, model.config.vocab_size),
                                         {.n_drawn = 5, .n_runs = 4, .n_threads = 1});
  EXPECT_GT(result.n_outside, 0U) << result.to_string();
  EXPECT_FALSE(result.holds());
}

// Tests the first layer of a published model, which `make smollm2` fetches: real widths, vocabulary and weights.
TEST(ModelCheck, APublishedLayerIsWithinTheBound) {
  const std::filesystem::path file = FOLIO_SMOLLM2;
  if (!std::filesystem::exists(file)) GTEST_SKIP() << file << " is not there: make smollm2 fetches it";
  core::StoredModel model = core::read_model(file);
  const auto manifest = core::tensor_manifest(model.config);
  std::vector<core::TensorView> kept;
  for (size_t i = 0; i < manifest.size(); ++i) {
    if (manifest[i].layer < 1) kept.push_back(model.tensors[i]);
  }
  model.tensors = kept;
  model.config.n_layers = 1;
  const auto machine = make_cuda({});
  const CheckResult result = check_model(model, *machine, random_tokens(9, 5, model.config.vocab_size),
                                         {.n_drawn = 3, .n_runs = 3, .n_threads = 1});
  EXPECT_TRUE(result.holds()) << result.to_string();
  std::printf("%s\n", result.to_string().c_str());
}

}  // namespace
}  // namespace folio::infer::test
