#include "train/step/muon.h"

#include <gtest/gtest.h>
#include <torch/utils.h>

#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "tests/core/model_shapes.h"
#include "tests/modules/support.h"
#include "tests/train/step/optimized.h"

namespace folio::train {
namespace {

using test::draw_gradients;
using test::in_a_block;

TrainConfig muon_config() {
  TrainConfig c = test::small_config();
  c.model.vocab_size = 9;
  c.optimizer = OptimizerKind::Muon;
  c.momentum = 0.9;
  c.weight_decay = 0.3;
  return c;
}

torch::Tensor doubles_of(const torch::Tensor& x) { return x.detach().to(torch::kDouble, false, /*copy=*/true); }

// Orthogonalizes g. A line-by-line port of zeropower_via_newtonschulz5 of Jordan et al. 2024.
torch::Tensor newton_schulz(const torch::Tensor& g) {
  const bool tall = g.size(0) > g.size(1);
  torch::Tensor x = g / (g.norm() + 1e-7);
  if (tall) x = x.t();
  for (int i = 0; i < 5; ++i) {
    const torch::Tensor a = x.mm(x.t());
    const torch::Tensor b = -4.7750 * a + 2.0315 * a.mm(a);
    x = 3.4445 * x + b.mm(x);
  }
  return tall ? x.t() : x;
}

// Muon in double: Nesterov's momentum as in Jordan et al. 2024, decay and scale as in Liu et al. 2025, equation 4.
struct PlainMuon {
  double mu, decay;
  torch::Tensor w, m = {};

  void step(const torch::Tensor& g, double lr) {
    m = m.defined() ? mu * m + g : g;
    const double larger = static_cast<double>(std::max(w.size(0), w.size(1)));
    w = (1.0 - lr * decay) * w - lr * 0.2 * std::sqrt(larger) * newton_schulz(g + mu * m);
  }
};

TEST(Muon, FollowsTheFormulaInDouble) {
  const TrainConfig c = muon_config();
  nn::Llama model = nn::family_llama(c.model);
  Muon optimizer(*model, c);
  std::map<std::string, PlainMuon> plain;
  int tall = 0, wide = 0;
  for (const auto& p : model->named_parameters()) {
    if (!in_a_block(p.key(), *p)) continue;
    plain[p.key()] = {c.momentum, c.weight_decay, doubles_of(*p)};
    tall += p->size(0) > p->size(1) ? 1 : 0;
    wide += p->size(0) < p->size(1) ? 1 : 0;
  }
  ASSERT_EQ(plain.size(), 2 * 7U);
  ASSERT_EQ(tall, 2 * 2);  // w1 and w3
  ASSERT_EQ(wide, 2 * 3);  // wk, wv and w2
  constexpr int kSteps = 6;
  double moved = 0.0;
  for (int step = 0; step < kSteps; ++step) {
    const double lr = 0.02 / (1 + step);
    draw_gradients(model);
    for (const auto& p : model->named_parameters()) {
      if (plain.contains(p.key())) plain[p.key()].step(doubles_of(p->grad()), lr);
    }
    optimizer.step(lr);
    moved += lr * 0.2 * std::sqrt(48.0);
  }
  EXPECT_EQ(optimizer.steps(), kSteps);
  // The five Newton-Schulz iterations multiply the relative rounding error of a step by at most 3.4445 each, about 500
  // in all. The updates of all steps add up to at most `moved`. Storing weights below 1 in float32 adds at most eps per
  // step.
  const double eps = std::numeric_limits<float>::epsilon();
  const double tolerance = 500 * eps * moved + kSteps * eps;
  for (const auto& p : model->named_parameters()) {
    if (!plain.contains(p.key())) continue;
    folio::test::expect_close(*p, plain[p.key()].w, tolerance, p.key());
  }
}

TEST(Muon, ExpertsAreSeparateMatrices) {
  TrainConfig c = muon_config();
  core::test::add_experts(c.model, core::Family::Mixtral, 3, 20);
  nn::Llama model = nn::family_llama(c.model);
  Muon optimizer(*model, c);
  draw_gradients(model);
  std::map<std::string, PlainMuon> plain;
  const auto name_of = [](const std::string& stack, int64_t e) { return stack + std::to_string(e); };
  for (const auto& p : model->named_parameters()) {
    if (p->dim() != 3) continue;
    for (int64_t e = 0; e < 3; ++e) {
      PlainMuon& matrix = plain[name_of(p.key(), e)] = {c.momentum, c.weight_decay, doubles_of((*p)[e])};
      matrix.step(doubles_of(p->grad()[e]), 0.02);
    }
  }
  ASSERT_EQ(plain.size(), 2 * 3 * 3U);
  optimizer.step(0.02);
  // 500 eps times the largest update of one step, as in FollowsTheFormulaInDouble, plus eps for storing weights below 1
  // in float32.
  const double tolerance = 500 * std::numeric_limits<float>::epsilon() * 0.02 * 0.2 * std::sqrt(32.0) +
                           std::numeric_limits<float>::epsilon();
  for (const auto& p : model->named_parameters()) {
    for (int64_t e = 0; p->dim() == 3 && e < 3; ++e) {
      const std::string name = name_of(p.key(), e);
      folio::test::expect_close((*p)[e], plain[name].w, tolerance, name);
    }
  }
  for (const auto& state : optimizer.state()) {
    if (state.name == "momentum_buffer.layers.0.ffn.experts.w2.weight") {
      EXPECT_EQ(state.tensor.sizes(), (torch::IntArrayRef{3, 32, 20}));
    }
  }
}

TEST(Muon, OrthogonalizesInBfloat16) {
  const torch::Tensor g = torch::randn({64, 176});
  const torch::Tensor x = orthogonalized(g.to(torch::kBFloat16));
  ASSERT_EQ(x.scalar_type(), torch::kBFloat16);
  const auto [u, s, vt] = torch::linalg_svd(x.to(torch::kFloat), /*full_matrices=*/false);
  EXPECT_GT(s.min().item<double>(), 0.6);
  EXPECT_LT(s.max().item<double>(), 1.3);
}

TEST(Muon, HasOneStatePerMatrixAndAdamWForTheRest) {
  const TrainConfig c = muon_config();
  nn::Llama model = nn::family_llama(c.model);
  const Muon optimizer(*model, c);
  std::set<std::string> expected;
  for (const auto& p : model->named_parameters()) {
    if (in_a_block(p.key(), *p)) expected.insert("momentum_buffer." + p.key());
  }
  for (const auto& p : model->named_parameters()) {
    if (in_a_block(p.key(), *p)) continue;
    expected.insert("exp_avg." + p.key());
    expected.insert("exp_avg_sq." + p.key());
  }
  std::set<std::string> names;
  for (const auto& state : optimizer.state()) EXPECT_TRUE(names.insert(state.name).second) << state.name;
  EXPECT_EQ(names, expected);
}

}  // namespace
}  // namespace folio::train
