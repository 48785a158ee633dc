// Tests train/verify/verify.h: the comparison of LibTorch with the engine passes or names the first differing value.
#include "train/verify/verify.h"

#include <gtest/gtest.h>
#include <torch/utils.h>

#include <algorithm>
#include <memory>

#include "core/formats/model_files.h"
#include "core/manifest.h"
#include "core/random.h"
#include "infer/cpu/cpu.h"
#include "modules/families/parts.h"
#include "tests/core/model_shapes.h"
#include "tests/core/support.h"
#include "train/run/weights.h"
#include "train/step/evaluate.h"

namespace folio::train {
namespace {

constexpr double kVerifyTolerance = 1e-4;

core::ModelConfig shape(const std::string& name) {
  core::ModelConfig c{.vocab_size = 13,
                      .dim = 32,
                      .n_layers = 2,
                      .n_heads = 4,
                      .n_kv_heads = 2,
                      .hidden_dim = 48,
                      .context_length = 64,
                      .rope_theta = 500.0F,
                      .norm_eps = 1e-6F};
  c.tie_embeddings = name != "untied";
  if (name == "scaled_rope") c.rope_scaling = {.factor = 8.0F, .original_context = 16};
  if (name == "qwen2") c.family = core::Family::Qwen2;
  if (name == "qwen3") {
    c.family = core::Family::Qwen3;
    c.head_dim = 12;
  }
  const auto with_experts = [&](core::Family family, int64_t shared_dim) {
    core::test::add_experts(c, family, 6, 20);
    c.shared_dim = shared_dim;
    if (!core::info(family).mixture.own_width) c.hidden_dim = c.expert_dim;
  };
  if (name.starts_with("latent")) {  // with or without a query latent; norms of latents must not use norm_eps
    c.family = core::Family::Youtu;
    core::test::add_latent(c,
                           {.kv_rank = 12, .query_rank = name == "latent" ? 0 : 10, .nope = 5, .rope = 6, .value = 7});
    c.norm_eps = 1e-2F;
  }
  if (name == "mixtral") with_experts(core::Family::Mixtral, 0);
  if (name == "qwen2_moe") with_experts(core::Family::Qwen2Moe, 24);
  if (name == "dots1") {
    with_experts(core::Family::Dots1, 20);
    c.expert_groups = 3;
    c.groups_per_token = 2;
    c.route_scale = 2.5F;
  }
  return c;
}

// Returns a model with random weights so large that every layer affects the result.
nn::Llama random_model(const std::string& name) {
  nn::Llama model = nn::family_llama(shape(name));
  const torch::NoGradGuard no_grad;
  for (auto& p : model->parameters()) p.normal_(p.dim() == 1 ? 1.0 : 0.0, p.dim() == 1 ? 0.2 : 0.15);
  return model;
}

std::vector<int32_t> some_tokens(size_t n) {
  std::vector<int32_t> tokens;
  for (size_t i = 0; i < n; ++i) tokens.push_back(static_cast<int32_t>(core::random_below(3, i, 13)));
  return tokens;
}

// A model in a GGUF file, with `error` added to one value of `tensor`, and an engine that runs the file.
struct Exported {
  Exported(const nn::Llama& reference, const std::string& tensor = "", float error = 0.0F) {
    core::Weights weights = weights_of(reference);
    const auto manifest = core::tensor_manifest(weights.config);
    for (size_t i = 0; i < manifest.size(); ++i) {
      if (manifest[i].gguf_name == tensor) weights.tensors[i][weights.tensors[i].size() / 2] += error;
    }
    core::write_gguf_model(directory / "m.gguf", weights.config, weights.views(), "test", {});
    model = std::make_unique<core::StoredModel>(core::read_model(directory / "m.gguf"));
    engine = std::make_unique<infer::Engine>(*model, cpu);
  }
  [[nodiscard]] EngineSide side() const { return {.engine = *engine}; }

  core::test::TempDir directory;
  std::unique_ptr<core::StoredModel> model;
  infer::Cpu cpu{{.n_threads = 1}};
  std::unique_ptr<infer::Engine> engine;
};

const Divergence* first_apart(const std::vector<Divergence>& all) {
  const auto found =
      std::find_if(all.begin(), all.end(), [](const Divergence& d) { return !(d.relative_error <= kVerifyTolerance); });
  return found == all.end() ? nullptr : &*found;
}

class Verify : public testing::TestWithParam<std::string> {};

TEST_P(Verify, RandomModelAgreesAtEveryIntermediate) {
  nn::Llama reference = random_model(GetParam());
  Exported exported(reference);
  const auto divergences = compare_forward(reference, exported.side(), some_tokens(64));
  std::vector<std::string> names;
  for (const auto& d : divergences) {
    EXPECT_LE(d.relative_error, kVerifyTolerance) << d.name;
    names.push_back(d.name);
  }
  const core::ModelConfig& c = reference->config();
  std::vector<std::string> expected{"embedding"};
  for (const std::string layer : {"layers.0.", "layers.1."}) {
    const bool latent = c.latent();
    for (const char* place : {"attention_norm", "query", latent ? "latent" : "key", latent ? "" : "value", "heads",
                              "attention_residual", "ffn_norm"})
      if (*place != 0) expected.push_back(layer + place);
    if (c.n_experts > 0) expected.push_back(layer + "routes");
    if (c.n_experts == 0 || c.shared_dim > 0) expected.push_back(layer + "ffn_hidden");
    expected.push_back(layer + "ffn_residual");
  }
  expected.insert(expected.end(), {"norm", "logits"});
  EXPECT_EQ(names, expected);
}

TEST_P(Verify, NamesTheFirstIntermediateOfABrokenKernel) {
  nn::Llama reference = random_model(GetParam());
  Exported exported(reference);
  using infer::kernels::Kernels;
  const auto place_of = [&](const auto& plant) {
    Kernels broken = infer::kernels::reference_kernels();
    plant(broken);
    infer::Cpu cpu({.n_threads = 1, .kernels = &broken});
    infer::Engine engine(*exported.model, cpu);
    const auto divergences = compare_forward(reference, {.engine = engine}, some_tokens(64));
    const Divergence* first = first_apart(divergences);
    return first == nullptr ? std::string("none") : first->name;
  };
  EXPECT_EQ(place_of([](Kernels&) {}), "none");
  EXPECT_EQ(place_of([](Kernels& k) {
              k.rms_norm = [](const float* x, const float* weight, float eps, size_t dim, float* out) {
                infer::kernels::reference_kernels().rms_norm(x, weight, eps, dim, out);
                out[dim - 1] *= 1.01F;
              };
            }),
            "layers.0.attention_norm");
  EXPECT_EQ(place_of([](Kernels& k) {
              k.rope = [](float* x, const float* cos, const float* sin, size_t n_heads, size_t head_dim,
                          core::RopePairs pairs) {
                infer::kernels::reference_kernels().rope(x, sin, cos, n_heads, head_dim, pairs);
              };
            }),
            "layers.0.query");
  EXPECT_EQ(place_of([](Kernels& k) {
              static_cast<infer::kernels::Function<infer::kernels::Attention<float>>&>(k.attention).run =
                  [](const infer::kernels::AttentionInput<float>& in, float* out) {
                    auto unscaled = in;
                    unscaled.scale = 1.0F;
                    infer::kernels::reference_kernels().attention(unscaled, out);
                  };
            }),
            "layers.0.heads");
  EXPECT_EQ(place_of([](Kernels& k) {
              k.swiglu = [](const float* gate, const float* up, size_t n, float* out) {
                infer::kernels::reference_kernels().swiglu(up, gate, n, out);
              };
            }),
            GetParam() == "mixtral" ? "layers.0.ffn_residual" : "layers.0.ffn_hidden");
  EXPECT_EQ(place_of([](Kernels& k) {
              static_cast<infer::kernels::Function<infer::kernels::Matmul<float>>&>(k.matmul).run =
                  [](const float* x, size_t n_rows, const float* weight, size_t width, size_t row_begin, size_t row_end,
                     float* out, size_t out_stride, bool accumulate) {
                    infer::kernels::reference_kernels().matmul(x, n_rows, weight, width, row_begin, row_end, out,
                                                               out_stride, /*accumulate=*/false);
                    static_cast<void>(accumulate);
                  };
            }),
            // The first product that adds to existing values: to the query bias, if the family has one, else to the
            // residual stream.
            core::info(shape(GetParam()).family).qkv_bias ? "layers.0.query" : "layers.0.attention_residual");
}

TEST_P(Verify, NamesTheFirstDifferingTensorAndBothValues) {
  nn::Llama reference = random_model(GetParam());
  const core::Weights weights = weights_of(reference);
  for (const char* tensor :
       {"token_embd.weight", reference->config().latent() ? "blk.0.attn_k_b.weight" : "blk.0.attn_k.weight",
        "blk.1.ffn_norm.weight", "output_norm.weight"}) {
    const Exported exported(reference, tensor, 0.25F);
    const auto difference = first_difference(weights, *exported.model);
    ASSERT_TRUE(difference.has_value()) << tensor;
    EXPECT_EQ(difference->name, tensor);
    EXPECT_NEAR(difference->found - difference->reference, 0.25, 1e-6);
  }
  EXPECT_FALSE(first_difference(weights, *Exported(reference).model).has_value());
}

TEST_P(Verify, RoundsWeightsToTheFilesType) {
  nn::Llama reference = random_model(GetParam());
  core::Weights weights = weights_of(reference);
  const core::test::TempDir directory;
  const auto file = [&](core::DType type) {
    const auto path = directory / "rounded.gguf";
    core::write_gguf_model(path, weights.config, core::stream_as(weights.views(), type), "test", {});
    return core::read_gguf_model(path);
  };
  for (const core::DType type : {core::DType::F16, core::DType::BF16}) {
    const core::StoredModel rounded = file(type);
    EXPECT_FALSE(first_difference(weights, rounded).has_value());
    weights.tensors[2][5] *= 1.02F;  // more than half a rounding step of either type
    const auto difference = first_difference(weights, rounded);
    ASSERT_TRUE(difference.has_value());
    EXPECT_EQ(difference->name, core::tensor_manifest(weights.config)[2].gguf_name);
    EXPECT_EQ(difference->row * 32 + difference->column, 5);
    weights.tensors[2][5] /= 1.02F;
  }
}

TEST_P(Verify, DivergenceShowsItsLocation) {
  nn::Llama reference = random_model(GetParam());
  Exported exported(reference, "token_embd.weight", 0.5F);  // value 13 * 32 / 2 is index 16 of token 6
  const auto divergences = compare_forward(reference, exported.side(), std::vector<int32_t>{1, 2, 3, 6, 5});
  EXPECT_EQ(divergences[0].position, 3);
  EXPECT_EQ(divergences[0].index, 16);
  EXPECT_NEAR(divergences[0].engine - divergences[0].libtorch, 0.5, 1e-6);
}

TEST_P(Verify, GreedyTextMatchesTheEngine) {
  nn::Llama reference = random_model(GetParam());
  Exported exported(reference);
  const std::vector<int32_t> prompt{1, 2, 3};
  const std::vector<int32_t> never{12, 4};
  const auto by_libtorch = greedy_by_libtorch(reference, prompt, 200, never);
  EXPECT_EQ(by_libtorch.size(), 61U);  // the context of 64 minus the prompt of 3
  for (const int32_t id : never) EXPECT_EQ(std::count(by_libtorch.begin(), by_libtorch.end(), id), 0);

  auto& cache = exported.engine->cache();
  const auto sequence = cache.add_sequence();
  std::vector<int32_t> tokens = prompt;
  for (size_t position = 0; position < 63; ++position) {
    const auto logits =
        exported.engine->runner()
            .forward(std::vector<infer::Row>{{tokens[position], sequence, static_cast<int64_t>(position), true}})
            .logits;
    for (const int32_t id : never) logits[static_cast<size_t>(id)] = -INFINITY;
    const auto best = std::max_element(logits.begin(), logits.end()) - logits.begin();
    if (position + 1 == tokens.size()) tokens.push_back(static_cast<int32_t>(best));
  }
  EXPECT_EQ(std::vector<int32_t>(tokens.begin() + 3, tokens.end()), by_libtorch);
}

TEST_P(Verify, LossesOfBothSidesAgree) {
  nn::Llama reference = random_model(GetParam());
  Exported exported(reference);
  const auto split = some_tokens(4500);  // 281 windows of 16, in batches of 256 and 25
  const double by_libtorch = split_loss(reference, split, 16, torch::kCPU);
  EXPECT_GT(by_libtorch, 1.0);
  EXPECT_NEAR(split_loss_by_engine(exported.side(), split, 16, 1000), by_libtorch, 1e-5);
  const auto part = std::span(split).first(5 * 16 + 1);
  EXPECT_NEAR(split_loss_by_engine(exported.side(), split, 16, 5), split_loss(reference, part, 16, torch::kCPU), 1e-5);

  Exported off(reference, reference->config().latent() ? "blk.1.attn_v_b.weight" : "blk.1.attn_v.weight", 0.5F);
  EXPECT_GT(std::abs(split_loss_by_engine(off.side(), split, 16, 1000) - by_libtorch), 1e-4);
}

INSTANTIATE_TEST_SUITE_P(Shapes, Verify,
                         testing::Values("untied", "tied", "scaled_rope", "qwen2", "qwen3", "mixtral", "qwen2_moe",
                                         "dots1", "latent", "latent_queries"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace folio::train
