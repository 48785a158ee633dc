// Tests mixtures of experts: the formula, groups, gradients, load counts, and that no row loses a selected expert.
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "modules/families/feed_forward.h"
#include "modules/families/mixture.h"
#include "tests/modules/gradient_check.h"
#include "tests/modules/mixtures.h"
#include "tests/modules/support.h"
#include "train/fused/parts.h"

namespace folio::test {
namespace {

using core::Family;

nn::Mixture mixture_of(const core::ModelConfig& config, bool fused) {
  torch::manual_seed(3);
  return in_double(nn::Mixture(config, fused ? train::fused::expert_products(config) : nn::ExpertProducts()), 0.5);
}

TEST(Experts, GradientsMatchDifferences) {
  for (const core::ModelConfig& c : mixture_configs()) {
    auto mixture = mixture_of(c, /*fused=*/false);
    const auto x = randn({1, 5, c.dim});
    SCOPED_TRACE(core::info(c.family).name);
    expect_gradients([&] { return mixture->forward(x); }, leaves(x, *mixture));
    if (HasFatalFailure()) return;
  }
}

// Tests values on both sides of the limits, which are 7 for the gate z and ±7 for `up`.
TEST(Experts, GradientsOfAClampedGateMatchDifferences) {
  const auto z = torch::tensor({-9.0, -1.5, 0.3, 6.5, 7.5, 9.0}, torch::kDouble).view({6, 1}).expand({6, 5}).clone();
  const auto up = torch::tensor({-8.0, -6.0, 0.5, 6.5, 8.0}, torch::kDouble).expand({6, 5}).clone();
  expect_gradients([&] { return nn::gated(core::Gate::Clamped, z, up); }, {z.requires_grad_(), up.requires_grad_()});
  const torch::NoGradGuard no_grad;
  const auto y = nn::gated(core::Gate::Clamped, z, up);
  for (int64_t i = 0; i < 6; ++i) {
    for (int64_t j = 0; j < 5; ++j) {
      const double g = std::min(z[i][j].item<double>(), 7.0);
      const double u = std::max(-7.0, std::min(up[i][j].item<double>(), 7.0));
      EXPECT_NEAR(y[i][j].item<double>(), g / (1.0 + std::exp(-static_cast<double>(core::kGateSlope) * g)) * (u + 1.0),
                  1e-12);
    }
  }
}

// An auxiliary loss uses the router's mean scores, so their gradients must be right, too.
TEST(Experts, GradientsOfMeanScoresMatchDifferences) {
  auto mixture = mixture_of(mixture_config(Family::Mixtral), /*fused=*/true);
  const auto x = randn({2, 5, 8});
  expect_gradients(
      [&] {
        mixture->forward(x);
        return mixture->take_load().scores.mean({0, 1});
      },
      {x, mixture->named_parameters()["router.weight"]});
}

TEST(Experts, PlainAndFusedAgree) {
  for (const core::ModelConfig& c : mixture_configs()) {
    auto plain = mixture_of(c, /*fused=*/false), fused = mixture_of(c, /*fused=*/true);
    const auto x = randn({3, 11, c.dim}).requires_grad_();
    const auto r = randn({3, 11, c.dim});
    const auto y = plain->forward(x), z = fused->forward(x);
    expect_close(z, y, 1e-13 * largest(y));
    std::vector<torch::Tensor> of_plain{x}, of_fused{x};
    for (const auto& p : plain->named_parameters()) {
      if (!p.value().requires_grad()) continue;
      of_plain.push_back(p.value());
      of_fused.push_back(fused->named_parameters()[p.key()]);
    }
    const auto expected = torch::autograd::grad({y}, of_plain, {r}), actual = torch::autograd::grad({z}, of_fused, {r});
    for (size_t i = 0; i < expected.size(); ++i) expect_close(actual[i], expected[i], 1e-12 * largest(expected[i]));
  }
}

// Experts have no capacity limit: even if all rows select the same expert, each row gets that expert's output.
TEST(Experts, AllRowsMayUseTheSameExpert) {
  core::ModelConfig c = mixture_config(Family::Mixtral);
  c.experts_per_token = 1;
  for (const bool is_fused : {false, true}) {
    auto mixture = mixture_of(c, is_fused);
    const torch::NoGradGuard no_grad;
    auto x = randn({1, 40, c.dim});
    x.select(2, 0).fill_(1.0);
    auto parameters = mixture->named_parameters();
    parameters["router.weight"].zero_();
    parameters["router.weight"][3][0] = 10.0;
    const auto y = mixture->forward(x);
    EXPECT_EQ(mixture->take_load().chosen[3].item<int64_t>(), 40);
    nn::SwiGLU expert(c.dim, c.expert_dim);
    expert->to(torch::kDouble);
    for (const char* w : {"w1", "w2", "w3"}) {
      expert->named_parameters()[std::string(w) + ".weight"].copy_(
          parameters["experts." + std::string(w) + ".weight"][3]);
    }
    expect_close(y, expert->forward(x), 1e-13 * largest(y));
  }
}

TEST(Experts, LoadCountsRowsUntilTaken) {
  auto mixture = mixture_of(mixture_config(Family::Mixtral), /*fused=*/true);
  EXPECT_FALSE(mixture->take_load().chosen.defined());
  mixture->forward(randn({2, 3, 8}));
  mixture->forward(randn({1, 4, 8}));
  const auto load = mixture->take_load();
  EXPECT_EQ(load.n_rows, 10);
  EXPECT_EQ(load.chosen.sum().item<int64_t>(), 20);
  EXPECT_EQ(mixture->take_load().n_rows, 0);
}

TEST(Experts, RejectsConfigurationsWithoutExperts) {
  expect_error([] { nn::Mixture(core::ModelConfig{.vocab_size = 3}); }, {"no experts"});
  auto mixture = mixture_of(mixture_config(Family::Mixtral), /*fused=*/true);
  expect_error([&] { mixture->forward(randn({2, 3, 7})); }, {"[B, T, 8]", "[2, 3, 7]"});
}

}  // namespace
}  // namespace folio::test
