// Tests the module that predicts the token after the next: its losses and gradients, in plain and in fused form.
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <memory>
#include <string>
#include <vector>

#include "modules/families/parts.h"
#include "tests/modules/gradient_check.h"
#include "tests/modules/mixtures.h"
#include "tests/modules/support.h"
#include "train/fused/parts.h"

namespace folio::test {
namespace {

using torch::Tensor;

// Returns configurations of a tied and an untied Llama, a Mistral with a window, a DeepSeek-V3 and a Granite.
std::vector<core::ModelConfig> ahead_configs() {
  const core::ModelConfig llama{
      .vocab_size = 7, .dim = 8, .n_layers = 2, .n_heads = 2, .n_kv_heads = 1, .hidden_dim = 12, .context_length = 12};
  std::vector<core::ModelConfig> all(5, llama);
  all[1].tie_embeddings = false;
  all[2].family = core::Family::Mistral;
  all[2].sliding_window = 3;
  all[3] = mixture_config(core::Family::DeepseekV3);
  all[4].family = core::Family::Granite;
  all[4].embedding_scale = 3.0F;
  all[4].residual_scale = 0.5F;
  all[4].logit_scale = 2.0F;
  for (core::ModelConfig& c : all) c.n_tokens_ahead = 1;
  return all;
}

nn::LlamaAhead ahead_of(nn::Llama model) {
  torch::manual_seed(5);
  return {std::dynamic_pointer_cast<nn::LlamaAheadImpl>(in_double(std::move(model), 0.5).ptr())};
}
nn::LlamaAhead plain_ahead(const core::ModelConfig& c) { return ahead_of(nn::family_llama(c)); }
nn::LlamaAhead fused_ahead(const core::ModelConfig& c, bool recompute) {
  const train::fused::Fusion fusion{.blocks = true, .ends = true, .recompute = recompute};
  return ahead_of(nn::llama_of(c, std::make_shared<train::fused::FusedParts>(nn::PartOptions{}, fusion)));
}

Tensor total(nn::LlamaAhead& model, const Window& w, const Tensor& starts = {}) {
  const auto [next, after_next] = model->losses(w.inputs, w.targets, starts);
  return next + 0.3 * after_next;
}

Tensor rms_normed(const Tensor& x, const Tensor& weight, const core::ModelConfig& c) {
  return x * (x.square().mean(-1, true) + static_cast<double>(c.norm_eps)).rsqrt() * weight;
}

// Computes equations 21 to 24 of DeepSeek-V3's report with the model's own block, at all positions that have a token
// after the next.
TEST(TokensAhead, LossIsThatOfTheEquations) {
  for (const core::ModelConfig& c : ahead_configs()) {
    if (c.family == core::Family::Granite) continue;  // has scales that the equations lack
    nn::LlamaAhead model = plain_ahead(c);
    const Window w = window_of(c, 2, 10);
    const auto p = model->named_parameters();
    const auto of = [&](const char* name) { return p["layers.2." + std::string(name) + ".weight"]; };
    Tensor x = model->embed(w.inputs);
    for (nn::Block& block : model->blocks()) x = block->forward(x);
    const Tensor h = rms_normed(x, p["norm.weight"], c);
    const Tensor& embedding = p["tok_embeddings.weight"];
    const Tensor& head = c.tie_embeddings ? embedding : p["output.weight"];
    const Tensor next = torch::embedding(embedding, w.inputs.narrow(1, 1, 9));  // t_{i+1} for i in [0, 9)
    const Tensor joined = torch::cat(
        {rms_normed(next, of("embedding_norm"), c), rms_normed(h.narrow(1, 0, 9), of("hidden_norm"), c)}, -1);
    const auto block = std::dynamic_pointer_cast<nn::BlockImpl>(model->named_modules()["layers.2"]);
    const Tensor y = block->forward(torch::linear(joined, of("projection")), {});
    const Tensor logits = torch::linear(rms_normed(y, of("output_norm"), c), head);
    const Tensor expected = torch::cross_entropy_loss(logits.flatten(0, 1), w.targets.narrow(1, 1, 9).flatten());
    const auto losses = model->losses(w.inputs, w.targets);
    expect_close(losses.after_next, expected, 1e-13);
    expect_equal(losses.next, model->loss(w.inputs, w.targets));
  }
}

TEST(TokensAhead, GradientsMatchCentralDifferences) {
  for (const core::ModelConfig& c : ahead_configs()) {
    nn::LlamaAhead model = plain_ahead(c);
    const Window w = window_of(c, 2, 10);
    std::vector<Tensor> trained;
    for (const Tensor& parameter : model->parameters()) {
      if (parameter.requires_grad()) trained.push_back(parameter);
    }
    expect_gradients([&] { return total(model, w); }, trained, 4);
  }
}

TEST(TokensAhead, FusedFormMatchesThePlainOne) {
  for (const core::ModelConfig& c : ahead_configs()) {
    if (!train::fused::can_be_fused(c)) continue;
    const Window w = window_of(c, 3, 10);
    nn::LlamaAhead plain = plain_ahead(c);
    const Tensor expected = total(plain, w);
    expected.backward();
    for (const bool recompute : {false, true}) {
      nn::LlamaAhead fused = fused_ahead(c, recompute);
      const Tensor actual = total(fused, w);
      actual.backward();
      expect_close(actual, expected, 1e-13);
      for (const auto& p : plain->named_parameters()) {
        const Tensor gradient = fused->named_parameters()[p.key()].grad();
        ASSERT_TRUE(gradient.defined()) << p.key();
        expect_close(gradient, p.value().grad(), 1e-12 * (1 + largest(p.value().grad())), p.key());
      }
    }
  }
}

TEST(TokensAhead, InitialWeightsOfTheModelDoNotDependOnTheModule) {
  core::ModelConfig c = ahead_configs().front();
  torch::manual_seed(1);
  const nn::Llama with = nn::family_llama(c);
  c.n_tokens_ahead = 0;
  torch::manual_seed(1);
  const nn::Llama without = nn::family_llama(c);
  for (const auto& p : without->named_parameters()) expect_equal(with->named_parameters()[p.key()], p.value(), p.key());
  EXPECT_GT(with->named_parameters().size(), without->named_parameters().size());
}

// Packed sequences have the same losses as separate ones, and the last position of each sequence has no target.
TEST(TokensAhead, PackedSequencesAreSeparate) {
  for (const core::ModelConfig& c : ahead_configs()) {
    nn::LlamaAhead model = plain_ahead(c);
    const Window w = window_of(c, 1, 10);
    const Tensor starts = torch::tensor({{0, 0, 0, 0, 4, 4, 4, 4, 4, 4}}, torch::kLong);
    const auto part = [&](int64_t first, int64_t n) {
      return model->losses(w.inputs.narrow(1, first, n), w.targets.narrow(1, first, n)).after_next;
    };
    const Tensor expected = (3 * part(0, 4) + 5 * part(4, 6)) / 8;
    const Tensor actual = model->losses(w.inputs, w.targets, starts).after_next;
    // With RoPE, scores depend only on distances between positions, so a sequence may start at any position of a row.
    expect_close(actual, expected, 1e-12);
    expect_equal((nn::targets_ahead(w.targets, starts) == nn::Parts::kIgnored).nonzero().select(1, 1),
                 torch::tensor({3, 9}, torch::kLong));
  }
}

TEST(TokensAhead, WithoutTargetsTheLossAndItsGradientsAreZero) {
  const core::ModelConfig c = ahead_configs().front();
  nn::LlamaAhead model = plain_ahead(c);
  Window w = window_of(c, 2, 10);
  w.targets = torch::full_like(w.targets, nn::Parts::kIgnored);
  w.targets.select(1, 0).fill_(3);  // only position 0 has a next token, and no position has a token after the next
  const Tensor loss = model->losses(w.inputs, w.targets).after_next;
  EXPECT_EQ(loss.item<double>(), 0.0);
  loss.backward();
  for (const auto& p : model->named_parameters()) {
    if (!p.key().starts_with("layers.2.")) continue;
    ASSERT_TRUE(p.value().grad().defined()) << p.key();
    EXPECT_EQ(largest(p.value().grad()), 0.0) << p.key();
  }
}

}  // namespace
}  // namespace folio::test
