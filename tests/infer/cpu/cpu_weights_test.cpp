// Tests infer/cpu/cpu_weights.h and infer/forward/stage_weights.h: loaded weights have the model's values and
// aren't duplicated in memory, and loading a range of layers reads only their tensors.
#include "infer/cpu/cpu_weights.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <type_traits>
#include <variant>

#include "core/formats/model_files.h"
#include "core/manifest.h"
#include "core/quants.h"
#include "tests/infer/support.h"

namespace folio::infer {
namespace {

using test::same_bits;

using core::Role;

// Returns the model as it is read from a GGUF file, which is deleted before this function returns.
core::StoredModel mapped(const core::StoredModel& model) {
  const test::TempDir folder;
  core::write_gguf_model(folder / "model.gguf", model.config, model.tensors, "test", {});
  return core::read_model(folder / "model.gguf");
}

CpuWeights load(const core::StoredModel& model, LayerRange layers) {
  core::ThreadPool pool(2);
  return {model, {.layers = layers}, pool, {}};
}

TEST(CpuWeights, PartialLayersLoadOnlyTheirTensors) {
  for (const test::Shape& shape : test::small_shapes()) {
    SCOPED_TRACE(shape.name);
    const auto model = test::random_model(shape.config);
    const int64_t n = shape.config.n_layers;
    if (n < 2) continue;
    const CpuWeights first = load(model, {0, n / 2});
    const CpuWeights last = load(model, {n / 2, n});
    EXPECT_TRUE(first.by_role().has(Role::TokenEmbedding));
    EXPECT_FALSE(first.by_role().has(Role::Output));
    EXPECT_FALSE(first.by_role().has(Role::OutputNorm));
    EXPECT_FALSE(last.by_role().has(Role::TokenEmbedding)) << "the last stage embeds nothing";
    EXPECT_TRUE(last.by_role().has(Role::Output));
    EXPECT_TRUE(last.by_role()(Role::Wq, n - 1).exists());
    const auto tied =
        static_cast<uint64_t>(shape.config.tie_embeddings ? shape.config.vocab_size * shape.config.dim : 0);
    EXPECT_EQ(first.report().weight_bytes + last.report().weight_bytes,
              (static_cast<uint64_t>(core::parameter_count(shape.config)) + tied) * sizeof(float));
  }
}

// Returns the address of a matrix's values if they are floats or have 16 bits, or null if they are quantized in groups.
const void* address_of(const Matrix& matrix) {
  return std::visit(
      [](const auto& weights) -> const void* {
        if constexpr (std::is_pointer_v<std::decay_t<decltype(weights)>>) return weights;
        return nullptr;
      },
      matrix.weights);
}

// Loaded matrices have the model's values, and each expert of a stack is a matrix of its own. If not copied, float and
// 16-bit matrices stay in the mapped file or the model's memory.
TEST(CpuWeights, EveryTypeKeepsTheModelsValues) {
  auto shapes = test::typed_shapes();
  for (const test::Shape& shape : test::expert_shapes()) shapes.push_back(shape);
  for (const test::Shape& shape : shapes) {
    const auto random = test::random_model_of(shape);
    const auto model = shape.config.n_experts > 0 ? random : mapped(random);
    const bool groups = core::quant_info(shape.type) != nullptr;
    const auto manifest = core::tensor_manifest(shape.config);
    for (const bool copies : {false, true}) {
      SCOPED_TRACE(shape.name + (copies ? ", copied" : ""));
      core::ThreadPool pool(2);
      const CpuWeights loaded(model, {.layers = {0, shape.config.n_layers}}, pool, {.copies = copies});
      EXPECT_TRUE(groups || copies || loaded.report().repacked_bytes == 0);
      for (size_t i = 0; i < manifest.size(); ++i) {
        if (!manifest[i].is_matrix()) continue;
        const auto expected = matrices_of(model.tensors[i]);
        const auto got = loaded.stack(loaded.by_role()(manifest[i].role, manifest[i].layer), expected.size());
        for (size_t m = 0; m < expected.size(); ++m) {
          const auto label = fmt::format("{}, matrix {}", manifest[i].gguf_name, m);
          EXPECT_EQ(got[m].in_groups(), groups);
          EXPECT_TRUE(same_bits(test::floats_of(got[m]), core::to_floats(expected[m]))) << label;
          if (groups) continue;
          EXPECT_EQ(address_of(got[m]) == expected[m].bytes.data(), !copies) << label;
          EXPECT_TRUE(!copies || reinterpret_cast<uintptr_t>(address_of(got[m])) % 64 == 0) << label;
        }
      }
    }
  }
}

// Returns how many KiB of a mapped file are in memory, from /proc/self/smaps.
size_t resident_kib(const std::filesystem::path& file) {
  std::ifstream smaps("/proc/self/smaps");
  size_t kib = 0;
  bool inside = false;
  for (std::string line; std::getline(smaps, line);) {
    if (line.find('-') < line.find(' ') && line.find(':') > line.find(' ')) inside = line.ends_with(file.string());
    if (inside && line.starts_with("Rss:")) kib += std::stoul(line.substr(4));
  }
  return kib;
}

void expect_one_copy_in_memory(const test::Shape& shape) {
  const auto written = test::random_model_of(shape);
  const test::TempDir folder;
  core::write_gguf_model(folder / "model.gguf", shape.config, written.tensors, "test", {});
  const core::StoredModel model = core::read_model(folder / "model.gguf");
  const CpuWeights loaded = load(model, {0, shape.config.n_layers});
  uint64_t blocks = 0;
  for (const auto& tensor : model.tensors) blocks += tensor.shape.size() > 1 ? tensor.bytes.size() : 0;
  ASSERT_GT(blocks, uint64_t{1500} << 10U);
  EXPECT_LT(resident_kib(folder / "model.gguf"), 256U) << "pages of repacked tensors are released";
  EXPECT_GE(loaded.report().repacked_bytes, blocks);
  EXPECT_LT(loaded.report().repacked_bytes, blocks + (64U << 10U)) << "tiles that are not full, and alignment";
  // Released pages can still be read from the file.
  EXPECT_TRUE(std::ranges::equal(model.tensors[0].bytes, written.tensors[0].bytes));
}

TEST(CpuWeights, KeepsOneCopyOfRepackedWeights) {
  test::Shape shape = test::typed_shapes()[2];
  ASSERT_EQ(shape.type, core::DType::Q8_0);
  shape.config.vocab_size = 4096;
  expect_one_copy_in_memory(shape);
  shape = test::expert_shapes()[4];
  ASSERT_EQ(shape.type, core::DType::Q8_0);
  shape.config.n_experts = 64;
  expect_one_copy_in_memory(shape);
}

}  // namespace
}  // namespace folio::infer
