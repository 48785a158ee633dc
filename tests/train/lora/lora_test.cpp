// Tests frozen weights with LoRA adapters, in plain and fused modules: without an adapter, outputs equal those of a
// model with trainable copies of the weights; an adapter adds scale B A to a weight; only adapters have gradients.
#include "train/lora/lora.h"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/mixtures.h"
#include "core/weights.h"
#include "tests/modules/gradient_check.h"
#include "tests/modules/support.h"
#include "tests/train/fused/fused_llama.h"

namespace folio::test {
namespace {

using core::DType;

// Returns a configuration in which the rows of matrices are multiples of 32 elements, as quantization blocks require.
core::ModelConfig lora_shape(core::Family family = core::Family::Llama, bool tied = true) {
  return {.family = family,
          .vocab_size = 13,
          .dim = 32,
          .n_layers = 2,
          .n_heads = 4,
          .n_kv_heads = 2,
          .head_dim = 8,
          .hidden_dim = 64,
          .context_length = 20,
          .tie_embeddings = tied};
}

// Returns a model with random weights of `type`, as if read from a file.
core::StoredModel stored(const core::ModelConfig& config, DType type) {
  torch::manual_seed(3);
  core::Weights weights{.config = config, .tensors = {}};
  for (const core::TensorSpec& spec : core::tensor_manifest(config)) {
    const auto values = torch::randn(spec.shape) * 0.3 + (spec.shape.size() == 1 ? 1.0 : 0.0);
    weights.tensors.emplace_back(values.data_ptr<float>(), values.data_ptr<float>() + values.numel());
  }
  core::TensorStream stream = core::stream_as(weights.views(), core::uniform_types(config, type));
  core::StoredModel model{.path = "test",
                          .format = core::ModelFormat::Gguf,
                          .config = config,
                          .tensors = {},
                          .storage = {},
                          .gguf = nullptr};
  for (size_t i = 0; i < stream.tensors.size(); ++i) {
    const auto bytes = stream.bytes(i);
    auto copy = std::make_shared<std::vector<std::byte>>(bytes.begin(), bytes.end());
    core::TensorView view = stream.tensors[i];
    view.bytes = *copy;
    model.storage.push_back(copy);
    model.tensors.push_back(view);
  }
  return model;
}

// Returns a trainable model with the weights of `model`.
nn::Llama trained(const core::StoredModel& model) {
  nn::Llama llama = nn::family_llama(model.config, {.written_out = true});
  const core::Weights weights = core::to_weights(model);
  const auto manifest = core::tensor_manifest(model.config);
  const torch::NoGradGuard no_grad;
  auto parameters = llama->named_parameters();
  for (size_t i = 0; i < manifest.size(); ++i) {
    parameters[manifest[i].module_name].copy_(
        torch::tensor(at::ArrayRef<float>(weights.tensors[i])).view(manifest[i].shape));
  }
  return llama;
}

struct LoraCase {
  std::string name;
  core::Family family = core::Family::Llama;
  bool fused = false;
  bool recompute = false;
  bool tied = true;
  std::string targets = "all";
};
void PrintTo(const LoraCase& c, std::ostream* out) { *out << c.name; }

nn::Llama frozen_llama(const LoraCase& c, const std::shared_ptr<const core::StoredModel>& weights) {
  nn::PartOptions options{.written_out = !c.fused, .linears = std::make_shared<train::lora::LoraLinears>(weights)};
  nn::Llama model = c.fused ? fused_llama(weights->config, std::move(options), c.recompute)
                            : nn::family_llama(weights->config, std::move(options));
  train::lora::freeze_rest(model, *weights);
  return model;
}

// Returns a frozen model in double with adapters. The matrices B are random, since B = 0 would have no effect.
nn::Llama adapted_llama(const LoraCase& c, double dropout = 0.0) {
  const auto weights = std::make_shared<const core::StoredModel>(stored(lora_shape(c.family, c.tied), DType::F32));
  nn::Llama model = frozen_llama(c, weights);
  torch::manual_seed(4);
  train::lora::add_lora(
      model, {.rank = 3, .alpha = 6, .dropout = dropout, .targets = train::lora::lora_targets(c.targets), .base = {}});
  model->to(torch::kDouble);
  const torch::NoGradGuard no_grad;
  for (auto& parameter : model->named_parameters()) {
    if (parameter.key().ends_with("lora_b")) parameter->normal_(0.0, 0.3);
  }
  return model;
}

std::vector<torch::Tensor> trained_parameters(const nn::Llama& model) {
  auto all = model->parameters();
  std::erase_if(all, [](const torch::Tensor& p) { return !p.requires_grad(); });
  return all;
}

class FusedLora : public testing::TestWithParam<LoraCase> {};
INSTANTIATE_TEST_SUITE_P(
    All, FusedLora,
    testing::Values(LoraCase{.name = "Plain"}, LoraCase{.name = "PlainQwen3", .family = core::Family::Qwen3},
                    LoraCase{.name = "PlainQwen2", .family = core::Family::Qwen2, .tied = false},
                    LoraCase{.name = "Fused", .fused = true},
                    LoraCase{.name = "FusedSome", .fused = true, .tied = false, .targets = "v,up,down"},
                    LoraCase{.name = "FusedRecomputed", .fused = true, .recompute = true, .targets = "q,o,gate"}),
    [](const auto& info) { return info.param.name; });

TEST_P(FusedLora, FrozenModelMatchesItsFile) {
  const Window t = window_of(lora_shape(), 2, 20);
  for (const DType type : {DType::F32, DType::F16, DType::BF16, DType::Q8_0, DType::Q4_0, DType::Q4_1}) {
    const core::StoredModel file = stored(lora_shape(GetParam().family, GetParam().tied), type);
    nn::Llama frozen = frozen_llama(GetParam(), std::make_shared<const core::StoredModel>(file));
    const double expected = trained(file)->loss(t.inputs, t.targets).item<double>();
    EXPECT_NEAR(frozen->loss(t.inputs, t.targets).item<double>(), expected, 2e-6 * expected);
    EXPECT_LE(largest(frozen->forward(t.inputs) - trained(file)->forward(t.inputs)), 1e-4);
    EXPECT_TRUE(trained_parameters(frozen).empty());
  }
}

TEST_P(FusedLora, GradientsMatchCentralDifferences) {
  for (const double dropout : {0.0, 0.3}) {
    nn::Llama model = adapted_llama(GetParam(), dropout);
    const Window t = window_of(lora_shape(), 2, 20);
    const auto loss = [&] {
      torch::manual_seed(7);  // the same dropout masks in each call
      return model->loss(t.inputs, t.targets);
    };
    expect_gradients(loss, trained_parameters(model), 3);
  }
}

TEST(LoraTargets, TargetsAreNamedLikeTheirLayers) {
  using core::Role;
  EXPECT_EQ(train::lora::lora_targets("down,q,q"), (std::vector{Role::Wq, Role::W2}));
  EXPECT_EQ(train::lora::lora_targets("all").size(), 7U);
  for (const char* wrong : {"", "q,", "lm_head", "q;v"}) {
    expect_error([&] { static_cast<void>(train::lora::lora_targets(wrong)); },
                 {"--lora-targets", "q, k, v, o, gate, up, down"});
  }
}

}  // namespace
}  // namespace folio::test
