// Laws of infer/model/model.h: views of the file, in the manifest's roles, and one clear line for what cannot run.
#include "infer/model/model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "core/formats/model_files.h"
#include "tests/infer/support.h"

namespace folio::infer {
namespace {

using test::same_bits;

TEST(Model, ShowsTheFilesTensorsInTheirRoles) {
  for (const test::Shape& shape : test::small_shapes()) {
    SCOPED_TRACE(shape.name);
    const auto weights = test::random_weights(shape.config, 3);
    const Model model = test::model_from(weights);
    ASSERT_EQ(model.config(), shape.config);
    size_t next = 0;
    const auto holds = [&](const float* view) {
      const auto& expected = weights.tensors[next++];
      EXPECT_TRUE(same_bits({view, expected.size()}, expected)) << "tensor " << next - 1;
    };
    const auto matrix_holds = [&](const Matrix& matrix) {
      EXPECT_EQ(matrix.n_out * matrix.k, weights.tensors[next].size());
      holds(std::get<const float*>(matrix.weights));
    };
    matrix_holds(model.token_embedding);
    for (const LayerWeights& l : model.layers) {
      holds(l.attention_norm);
      for (const Matrix& matrix : {l.wq, l.wk, l.wv, l.wo}) matrix_holds(matrix);
      holds(l.ffn_norm);
      for (const Matrix& matrix : {l.w1, l.w3, l.w2}) matrix_holds(matrix);
    }
    holds(model.output_norm);
    if (shape.config.tie_embeddings) {
      EXPECT_EQ(model.output.weights.index(), 0U);
      EXPECT_EQ(std::get<0>(model.output.weights), std::get<0>(model.token_embedding.weights));
    } else {
      matrix_holds(model.output);
    }
    EXPECT_EQ(next, weights.tensors.size());
    EXPECT_EQ(model.weight_bytes(), static_cast<uint64_t>(core::parameter_count(shape.config)) * sizeof(float));
  }
}

TEST(Model, EachTypesNumbersAreThoseOfTheFile) {
  for (const test::Shape& shape : test::typed_shapes()) {
    SCOPED_TRACE(shape.name);
    const Model model = test::random_model_of(shape);
    const auto& tensors = model.stored().tensors;
    size_t next = 0;
    const auto holds = [&](const Matrix& matrix) {
      while (tensors[next].shape.size() == 1) ++next;
      EXPECT_TRUE(same_bits(test::floats_of(matrix), core::to_floats(tensors[next]))) << tensors[next].name;
      ++next;
    };
    holds(model.token_embedding);
    for (const LayerWeights& l : model.layers) {
      for (const Matrix& matrix : {l.wq, l.wk, l.wv, l.wo, l.w1, l.w3, l.w2}) holds(matrix);
    }
    if (!shape.config.tie_embeddings) holds(model.output);
    EXPECT_EQ(model.output.weights.index(), model.token_embedding.weights.index());
  }
}

TEST(Model, SixteenBitsAreUsedWhereTheyAreMapped) {
  for (const test::Shape& shape : test::typed_shapes()) {
    if (core::quant_info(shape.type) != nullptr) continue;
    const Model model = test::random_model_of(shape);
    const void* data = shape.type == core::DType::F16
                           ? static_cast<const void*>(std::get<const kernels::F16*>(model.layers[1].w2.weights))
                           : std::get<const kernels::BF16*>(model.layers[1].w2.weights);
    const auto manifest = core::tensor_manifest(shape.config);
    for (size_t i = 0; i < manifest.size(); ++i) {
      if (manifest[i].layer == 1 && manifest[i].role == core::Role::W2) {
        EXPECT_EQ(data, model.stored().tensors[i].bytes.data());
      }
    }
    EXPECT_EQ(model.repacked_bytes(), 0U);
  }
}

// The resident kilobytes of a file's mapping, from /proc/self/smaps.
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

TEST(Model, OfWhatIsRepackedOneCopyStaysInMemory) {
  test::Shape shape = test::typed_shapes()[2];
  ASSERT_EQ(shape.type, core::DType::Q8_0);
  shape.config.vocab_size = 4096;
  const auto tensors = test::random_tensors(shape, 7);
  auto views = test::random_weights(shape.config, 7).views();
  for (size_t i = 0; i < views.size(); ++i) {
    if (views[i].shape.size() > 1) views[i].type = shape.type;
    views[i].bytes = tensors[i];
  }
  const test::TempDir folder;
  core::write_gguf_model(folder / "model.gguf", shape.config, views, "test", {});
  const Model model(folder / "model.gguf");
  uint64_t blocks = 0;
  for (const auto& tensor : model.stored().tensors) blocks += tensor.shape.size() > 1 ? tensor.bytes.size() : 0;
  ASSERT_GT(blocks, uint64_t{1500} << 10U);
  EXPECT_LT(resident_kib(folder / "model.gguf"), 256U) << "pages of repacked tensors are given back";
  EXPECT_GE(model.repacked_bytes(), blocks);
  EXPECT_LT(model.repacked_bytes(), blocks + (64U << 10U)) << "tiles that are not full, and alignment";
  // What was given back can still be read.
  EXPECT_TRUE(std::ranges::equal(model.stored().tensors[0].bytes, tensors[0]));
}

TEST(Model, OfAnotherTypeIsAnErrorThatNamesTheTensor) {
  const auto config = test::small_shapes().front().config;
  const auto weights = test::random_weights(config, 3);
  auto views = weights.views();
  const std::vector<int32_t> whole(weights.tensors[0].size());
  views[0].type = core::DType::I32;
  views[0].bytes = std::as_bytes(std::span(whole));
  const test::TempDir folder;
  core::write_gguf_model(folder / "whole.gguf", config, views, "test", {});
  EXPECT_ERROR(Model(folder / "whole.gguf"), "token_embd.weight has type I32");
}

TEST(Model, EveryFormatGivesTheSameWeights) {
  auto config = test::small_shapes().front().config;
  config.rope_theta = 10000.0F;
  config.norm_eps = 1e-5F;
  const auto weights = test::random_weights(config, 3);
  const test::TempDir folder;
  core::write_hf_directory(folder.path(), weights, 0);
  core::write_llama2c(folder / "model.bin", config, weights.views(), 0);
  for (const auto& path : {folder.path(), folder / "model.bin"}) {
    const Model model(path);
    EXPECT_EQ(model.config(), config);
    EXPECT_TRUE(same_bits(test::floats_of(model.token_embedding), weights.tensors[0]));
    EXPECT_TRUE(same_bits(test::floats_of(model.layers[0].wq), weights.tensors[2]));
    EXPECT_TRUE(same_bits(test::floats_of(model.layers[0].w2), weights.tensors[9]));
  }
}

TEST(Model, MissingIsAnError) { EXPECT_ERROR(Model("/nowhere/model.gguf"), "/nowhere/model.gguf"); }

}  // namespace
}  // namespace folio::infer
