// Laws of infer/model.h: views of the file, in the manifest's roles, and one clear line for what cannot run.
#include "infer/model.h"

#include <gtest/gtest.h>

#include "core/file_io.h"
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

TEST(Model, OfAnotherTypeIsAnErrorThatNamesTheTensor) {
  const auto config = test::small_shapes().front().config;
  const auto weights = test::random_weights(config, 3);
  const auto manifest = core::tensor_manifest(config);
  const std::vector<std::byte> zeros(static_cast<size_t>(manifest[0].elements()) * 2);
  std::vector<core::TensorView> views;
  for (size_t i = 0; i < manifest.size(); ++i) {
    views.push_back({.name = manifest[i].gguf_name,
                     .type = i == 0 ? core::DType::F16 : core::DType::F32,
                     .shape = manifest[i].shape,
                     .bytes = i == 0 ? std::span(zeros) : std::as_bytes(std::span(weights.tensors[i]))});
  }
  const test::TempDir folder;
  core::write_file_atomically(folder / "half.gguf", [&](core::OutputFile& out) {
    core::write_gguf(out, core::config_to_gguf(config, "test"), views);
  });
  EXPECT_ERROR(Model(folder / "half.gguf"), "token_embd.weight");
}

TEST(Model, MissingIsAnError) { EXPECT_ERROR(Model("/nowhere/model.gguf"), "/nowhere/model.gguf"); }

}  // namespace
}  // namespace folio::infer
