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

// Each matrix of a stack of experts is updated separately.
TEST(Muon, FollowsTheFormulaInDouble) {
  for (const bool experts : {false, true}) {
    TrainConfig c = muon_config();
    if (experts) core::test::add_experts(c.model, core::Family::Mixtral, 3, 20);
    nn::Llama model = nn::family_llama(c.model);
    Muon optimizer(*model, c);
    const auto matrices_of = [](const torch::Tensor& p) {
      return p.dim() == 2 ? std::vector<torch::Tensor>{p} : p.unbind(0);
    };
    std::map<std::string, std::vector<PlainMuon>> plain;
    for (const auto& p : model->named_parameters()) {
      if (!is_matrix_of_block(p.key(), *p)) continue;
      for (const torch::Tensor& w : matrices_of(*p)) {
        plain[p.key()].push_back({c.momentum, c.weight_decay, doubles_of(w)});
      }
    }
    ASSERT_EQ(plain.size(), experts ? 2 * 8U : 2 * 7U);
    constexpr int kSteps = 6;
    double moved = 0.0;
    for (int step = 0; step < kSteps; ++step) {
      const double lr = 0.02 / (1 + step);
      draw_gradients(model);
      for (auto& [name, each] : plain) {
        const auto gradients = matrices_of(model->named_parameters()[name].grad());
        for (size_t i = 0; i < each.size(); ++i) each[i].step(doubles_of(gradients[i]), lr);
      }
      optimizer.step(lr);
      moved += lr * 0.2 * std::sqrt(48.0);
    }
    EXPECT_EQ(optimizer.steps(), kSteps);
    // The five Newton-Schulz iterations multiply the relative rounding error of a step by at most 3.4445 each, about
    // 500 in all. The updates of all steps add up to at most `moved`. Storing weights below 1 in float32 adds at most
    // eps per step.
    const double eps = std::numeric_limits<float>::epsilon();
    const double tolerance = 500 * eps * moved + kSteps * eps;
    std::set<std::string> states;
    for (const auto& state : optimizer.state()) states.insert(state.name);
    for (const auto& [name, each] : plain) {
      EXPECT_TRUE(states.contains("momentum_buffer." + name)) << name;
      const auto weights = matrices_of(model->named_parameters()[name]);
      for (size_t i = 0; i < each.size(); ++i) folio::test::expect_close(weights[i], each[i].w, tolerance, name);
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

}  // namespace
}  // namespace folio::train
