// Laws of infer/model.h: views of the file, in the manifest's roles, and one clear line for what cannot run.
#include "infer/model.h"

#include <gtest/gtest.h>

#include "core/model_files.h"
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
    holds(model.token_embedding);
    for (const LayerWeights& l : model.layers) {
      for (const float* view : {l.attention_norm, l.wq, l.wk, l.wv, l.wo, l.ffn_norm, l.w1, l.w3, l.w2}) holds(view);
    }
    holds(model.output_norm);
    if (shape.config.tie_embeddings) {
      EXPECT_EQ(model.output, model.token_embedding);
    } else {
      holds(model.output);
    }
    EXPECT_EQ(next, weights.tensors.size());
    EXPECT_EQ(model.weight_bytes(), static_cast<uint64_t>(core::parameter_count(shape.config)) * sizeof(float));
  }
}

TEST(Model, HalfWeightsRunAsTheFloatsThatTheyStandFor) {
  const auto config = test::small_shapes().front().config;
  const auto weights = test::random_weights(config, 3);
  const test::TempDir folder;
  for (const core::DType type : {core::DType::F16, core::DType::BF16}) {
    const auto path = folder / "half.gguf";
    core::write_gguf_model(path, config, core::stream_as(weights.views(), type), "test", {});
    const Model model(path);
    const auto expected = core::to_floats(model.stored().tensors[0]);
    EXPECT_TRUE(same_bits({model.token_embedding, expected.size()}, expected));
    EXPECT_FALSE(same_bits({model.token_embedding, expected.size()}, weights.tensors[0]));
    EXPECT_TRUE(same_bits({model.output_norm, weights.tensors.back().size()}, weights.tensors.back()));
  }
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
    EXPECT_TRUE(same_bits({model.token_embedding, weights.tensors[0].size()}, weights.tensors[0]));
    EXPECT_TRUE(same_bits({model.layers[0].wq, weights.tensors[2].size()}, weights.tensors[2]));
    EXPECT_TRUE(same_bits({model.layers[0].w2, weights.tensors[9].size()}, weights.tensors[9]));
  }
}

TEST(Model, MissingIsAnError) { EXPECT_ERROR(Model("/nowhere/model.gguf"), "/nowhere/model.gguf"); }

}  // namespace
}  // namespace folio::infer
