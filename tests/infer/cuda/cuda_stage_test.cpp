// Tests the CUDA machine (infer/cuda/cuda.h) on the GPU emulator: out-of-memory errors show sizes, the KV cache uses no
// more memory than configured or needed, loading reports progress, and a failed step doesn't affect later ones.
#include <gtest/gtest.h>

#include "infer/cuda/cuda.h"
#include "infer/cuda/fuse.h"
#include "infer/cuda/sample.h"
#include "tests/infer/cuda/host/emulator.h"
#include "tests/infer/support.h"

namespace folio::infer {
namespace {

using gpu::host::DeviceScope;

core::StoredModel model_of(core::DType type = core::DType::F16) {
  test::Shape shape = test::small_shapes()[0];
  shape.type = type;
  return test::random_model_of(shape);
}

std::vector<float> logits_of(const core::StoredModel& model, Machine& machine, size_t n_tokens) {
  Runner runner(model, machine);
  const auto tokens = test::random_tokens(n_tokens, 1, model.config.vocab_size);
  return test::run(runner, test::rows_of(runner.cache().add_sequence(), tokens));
}

TEST(CudaStage, RejectsModelsLargerThanMemory) {
  const core::StoredModel model = model_of();
  const DeviceScope small({.memory_bytes = 100'000});
  const auto cuda = make_cuda({});
  EXPECT_ERROR(Runner(model, *cuda),
               "layers 0 to 2 need 0.00 GB on the GPU, which has 0.00 GB free; keep more layers on the CPU with "
               "--gpu-layers N, or use a file with smaller weights");
}

TEST(CudaStage, RejectsMemoryTooSmallForTheCache) {
  const core::StoredModel model = model_of();
  const DeviceScope small({.memory_bytes = 10'000'000});
  const auto cuda = make_cuda({});
  EXPECT_ERROR(Runner(model, *cuda), "no memory is left for the KV cache");
  const auto with_some = make_cuda({.cache_bytes = 1'000'000});
  EXPECT_NO_THROW(Runner(model, *with_some));
  const auto with_too_much = make_cuda({.cache_bytes = uint64_t{1} << 40U});
  EXPECT_ERROR(Runner(model, *with_too_much, {.n_sequences = 1'000'000}), "free");
}

TEST(CudaStage, CacheUsesAtMostTheBytesItNeeds) {
  const core::StoredModel model = model_of();  // a context of 128 positions, which is four KV blocks
  const auto cuda = make_cuda({});
  const Runner all(model, *cuda);
  EXPECT_EQ(all.cache().n_blocks(), 4);
  const auto with_three = make_cuda({.cache_bytes = 3 * all.block_bytes() + 5});
  EXPECT_EQ(Runner(model, *with_three).cache().n_blocks(), 3);
  EXPECT_EQ(Runner(model, *with_three, {.max_positions = 40}).cache().n_blocks(), 2);
  EXPECT_ERROR(Runner(model, *make_cuda({.cache_bytes = 10})), "no memory is left for the KV cache");
}

// A cache that takes all memory it can leaves CUDA's 256 MiB (kReserve) free, even after the largest step.
TEST(CudaStage, CacheLeavesMemoryForTheLargestStep) {
  for (const core::StoredModel& model : {model_of(), test::random_model_of(test::expert_shapes()[0])}) {
    const DeviceScope small({.memory_bytes = 500'000'000});
    const auto cuda = make_cuda({.max_rows = 64});
    Runner runner(model, *cuda, {.n_sequences = 1'000'000});
    EXPECT_GT(runner.cache().n_blocks(), 100);
    const auto tokens = test::random_tokens(64, 1, model.config.vocab_size);
    test::run(runner, test::rows_of(runner.cache().add_sequence(), tokens));
    EXPECT_GE(gpu::device_info(0).free_bytes, uint64_t{256} << 20U);
  }
}

TEST(CudaStage, CacheLeavesMemoryForAllLogitsAndDraws) {
  const core::StoredModel model = model_of();
  const DeviceScope small({.memory_bytes = 500'000'000});
  const auto cache_bytes = [&](size_t max_logit_rows) {
    const auto cuda = make_cuda({.max_rows = 256, .max_logit_rows = max_logit_rows});
    const Runner runner(model, *cuda, {.n_sequences = 1'000'000});
    return static_cast<uint64_t>(runner.cache().n_blocks()) * runner.block_bytes();
  };
  const auto vocab_size = static_cast<size_t>(model.config.vocab_size);
  EXPECT_GT(cache_bytes(64), cache_bytes(256) + gpu::draw_workspace_bytes(192) + 192 * vocab_size * sizeof(float));
}

TEST(CudaStage, AnglesTakeMemoryOnlyForCachedPositions) {
  core::StoredModel model = model_of();
  model.config.context_length = 50'000'000;  // its angles would need more than the memory
  const DeviceScope small({.memory_bytes = 500'000'000});
  const auto cuda = make_cuda({.max_rows = 64});
  EXPECT_EQ(Runner(model, *cuda, {.max_positions = 128}).cache().n_blocks(), 4);
}

TEST(CudaStage, CacheOfADraftModelLeavesMemoryToTheMainModel) {
  const core::StoredModel model = model_of();
  const DeviceScope small({.memory_bytes = 500'000'000});
  const auto cuda = make_cuda({.max_rows = 64});
  const Runner draft(model, *cuda, {.n_sequences = 1'000'000, .share = 0.1});
  const Runner main(model, *cuda, {.n_sequences = 1'000'000});
  EXPECT_GT(main.cache().n_blocks(), 5 * draft.cache().n_blocks());
}

TEST(CudaStage, RejectsAQ8Cache) {
  const core::StoredModel model = model_of();
  const auto cuda = make_cuda({});
  EXPECT_ERROR(Runner(model, *cuda, {.type = CacheType::Q8_0}), "q8_0 is supported only on CPUs; use --cache-type f16");
}

TEST(CudaStage, ReportsLoadingProgress) {
  const core::StoredModel model = model_of();
  std::vector<uint64_t> done;
  uint64_t all = 0;
  const auto cuda = make_cuda({.on_progress = [&](uint64_t some, uint64_t total) {
    done.push_back(some);
    all = total;
  }});
  const Runner runner(model, *cuda);
  EXPECT_TRUE(std::is_sorted(done.begin(), done.end()));
  EXPECT_GT(done.size(), 10U);
  EXPECT_LE(done.back(), all);
  EXPECT_GT(done.back() + 256, all) << "but for what aligns the last tensor";
  EXPECT_EQ(runner.load_report().weight_bytes, all);
}

TEST(CudaStage, RejectsMissingDevicesAndWideHeads) {
  EXPECT_ERROR(make_cuda({.device = 3}), "3");
  test::Shape wide = test::small_shapes()[0];
  wide.config.dim = 600;
  wide.config.n_heads = wide.config.n_kv_heads = 2;
  wide.config.head_dim = 300;
  const core::StoredModel model = test::random_model_of(wide);
  EXPECT_ERROR(Runner(model, *make_cuda({})),
               "head_dim is 300, but the GPU kernels support at most 256; use --device cpu");
  core::ModelConfig latent = test::latent_shapes()[0].config;
  latent.kv_lora_rank = 513;
  const core::StoredModel wide_latent = test::random_model(latent);
  EXPECT_ERROR(Runner(wide_latent, *make_cuda({})),
               "kv_lora_rank is 513, but the GPU kernels support at most 512; use --device cpu");
  latent.kv_lora_rank = 26;
  latent.qk_rope_head_dim = 514;
  latent.head_dim = latent.qk_nope_head_dim + 514;
  const core::StoredModel wide_rope = test::random_model(latent);
  EXPECT_ERROR(Runner(wide_rope, *make_cuda({})),
               "qk_rope_head_dim is 514, but the GPU kernels support at most 512; use --device cpu");
}

// A layer stores one latent per position, padded from 96 to 128 elements, for any number of heads.
TEST(CudaStage, CachesOneLatentForAllHeads) {
  const core::StoredModel model = test::random_model_of(test::latent_shapes()[3]);
  const auto positions = kBlockPositions * static_cast<uint64_t>(model.config.n_layers);
  EXPECT_EQ(Runner(model, *make_cuda({}), {.type = CacheType::F32}).block_bytes(), positions * 128 * 4);
  EXPECT_EQ(Runner(model, *make_cuda({}), {.type = CacheType::F16}).block_bytes(), positions * 128 * 2);
}

// Computing a prompt in one step, in several, or one row at a time gives the same bits. A recorded step of one row is
// replayed for other rows, which select other experts.
TEST(CudaStage, ResultsDoNotDependOnStepSizes) {
  constexpr size_t kTokens = 48;
  auto shapes = test::latent_shapes();
  std::ranges::copy_if(test::expert_shapes(), std::back_inserter(shapes),
                       [](const test::Shape& shape) { return shape.name != "olmoe_f16"; });
  for (const test::Shape& shape : shapes) {
    SCOPED_TRACE(shape.name);
    const core::StoredModel model = test::random_model_of(shape);
    const auto expected = logits_of(model, *make_cuda({.max_rows = 2048}), kTokens);
    for (const size_t most : {1U, 7U, 40U}) {
      const auto cuda = make_cuda({.max_rows = most});
      Runner runner(model, *cuda);
      const auto tokens = test::random_tokens(kTokens, 1, model.config.vocab_size);
      const auto rows = test::rows_of(runner.cache().add_sequence(), tokens);
      std::vector<float> got;
      for (size_t i = 0; i < rows.size(); i += most) {
        const auto some = runner.forward(std::span(rows).subspan(i, std::min(most, rows.size() - i))).logits;
        got.insert(got.end(), some.begin(), some.end());
      }
      EXPECT_TRUE(test::same_bits(got, expected)) << most << " rows at once";
    }
  }
}

// Each operation is named by its index.
TEST(CudaFusion, FusesNormsAndActivationsIntoMatmuls) {
  const std::vector<Operation> operations{
      Norm{},
      Project(Slot::Normed, std::array{Projection{}}),
      Gather{},
      Attend{},
      ProjectToResidual{.in = Slot::Heads, .weight = {}, .bias = {}, .post_norm = {}},
      Norm{},
      Project(Slot::Normed, std::array{Projection{}}),
      Activate{Slot::Gate, Slot::Up},
      ProjectToResidual{.in = Slot::Gate, .weight = {}, .bias = {}, .post_norm = {}},
      Activate{Slot::SharedGate, Slot::SharedUp},
      GateRows{.slot = Slot::SharedGate, .weight = {}},
      Gather{},
      ProjectHeads{},
      Attend{},
      ProjectHeads{},
  };
  std::string got;
  for (const FusedOperation& f : fuse(operations)) {
    got +=
        fmt::format("{}{}{}{}{}{} ", f.adds_branch ? "add+" : "", f.norm ? "norm+" : "", f.activate ? "activate+" : "",
                    f.gathers ? "gather+" : "", f.operation - operations.data(), f.leaves_branch ? "-" : "");
  }
  EXPECT_EQ(got, "norm+1 gather+3 4- add+norm+6 activate+8 9 10 12 gather+13 14 ");
}

// With --fast, a product's terms may be added in one sum instead of eight, so logits differ by rounding errors.
TEST(CudaStage, FastModeIsClose) {
  const core::StoredModel model = model_of(core::DType::F32);
  const auto exact = logits_of(model, *make_cuda({}), 100);
  const auto fast = logits_of(model, *make_cuda({.fast = true}), 100);
  double most = 0.0;
  for (size_t i = 0; i < exact.size(); ++i) most = std::max(most, std::abs(static_cast<double>(exact[i] - fast[i])));
  EXPECT_LT(most, 1e-4);
}

// A step fails for lack of memory. Once memory is free again, the sequence continues unaffected.
TEST(CudaStage, FailedStepsChangeNothing) {
  const core::StoredModel model = model_of();
  const auto tokens = test::random_tokens(60, 1, model.config.vocab_size);
  const auto cuda = make_cuda({.cache_bytes = 1'000'000});
  const auto expected = logits_of(model, *cuda, 60);
  Runner runner(model, *cuda);
  const auto rows = test::rows_of(runner.cache().add_sequence(), tokens);
  std::vector<float> got;
  const auto take = [&](std::span<const Row> some) {
    const auto logits = runner.forward(some).logits;
    got.insert(got.end(), logits.begin(), logits.end());
  };
  take(std::span(rows).first(2));
  {
    const DeviceScope full({.memory_bytes = 1});
    EXPECT_ERROR(runner.forward(std::span(rows).subspan(2, 50)), "free");
  }
  take(std::span(rows).subspan(2, 1));
  take(std::span(rows).subspan(3));
  EXPECT_TRUE(test::same_bits(got, expected));
}

}  // namespace
}  // namespace folio::infer
