#include "train/step/galore.h"

#include <gtest/gtest.h>
#include <torch/utils.h>

#include <limits>
#include <map>
#include <set>

#include "tests/train/step/optimized.h"

namespace folio::train {
namespace {

using test::Optimized;

constexpr int64_t kRank = 6, kEvery = 3;

// Returns the configuration of a model with matrices of [32, 32], [16, 32], [48, 32] and [32, 48].
TrainConfig galore_config() {
  TrainConfig c = test::small_config();
  c.model.vocab_size = 9;
  c.optimizer = OptimizerKind::GaLore;
  c.rank = kRank;
  c.galore_every = kEvery;
  return c;
}

TEST(GaLore, ProjectsOntoTheLargestSingularVectors) {
  Optimized it(galore_config());
  for (int step = 0; step < 2 * kEvery; ++step) {
    std::map<std::string, torch::Tensor> before;
    for (const auto& [name, tensor] : it.state) before[name] = tensor.clone();
    test::draw_gradients(it.model);
    it.optimizer->step(0.01, 1.0);
    for (const auto& p : it.model->named_parameters()) {
      if (!is_matrix_of_block(p.key(), *p)) continue;
      const std::string name = "ortho_matrix." + p.key();
      if (step % kEvery != 0) {
        EXPECT_TRUE(torch::equal(it.state[name], before[name])) << name;
        continue;
      }
      const bool rows = p->size(0) >= p->size(1);
      const torch::Tensor g = (rows ? p->grad() : p->grad().t()).to(torch::kDouble);
      const torch::Tensor projection = (rows ? it.state[name] : it.state[name].t()).to(torch::kDouble);
      ASSERT_EQ(projection.sizes(), (std::vector<int64_t>{kRank, g.size(1)})) << name;
      // The vectors must be orthonormal up to float32's rounding of sums of at most 32 products.
      const double eps = 32.0 * std::numeric_limits<float>::epsilon();
      EXPECT_LT((projection.mm(projection.t()) - torch::eye(kRank, torch::kDouble)).abs().max().item<double>(), eps);
      // The subspace must contain as much of g's squared norm as any subspace of rank kRank can: the sum of the squares
      // of g's kRank largest singular values.
      const double held = g.mm(projection.t()).square().sum().item<double>();
      const torch::Tensor values = std::get<1>(torch::linalg_svd(g, /*full_matrices=*/false));
      const double most = values.narrow(0, 0, kRank).square().sum().item<double>();
      EXPECT_NEAR(held / most, 1.0, 2.0 * eps) << name;
    }
  }
}

// Negates the last three singular vectors of each matrix, in the projection P only, or in P and the moments M.
void flip(Optimized& it, bool with_moments) {
  for (const auto& p : it.model->named_parameters()) {
    if (!is_matrix_of_block(p.key(), *p)) continue;
    const bool rows = p->size(0) >= p->size(1);
    it.state["ortho_matrix." + p.key()].narrow(rows ? 0 : 1, kRank - 3, 3).neg_();
    if (with_moments) it.state["exp_avg." + p.key()].narrow(rows ? 1 : 0, kRank - 3, 3).neg_();
  }
}

// Within a subspace, negating singular vectors in both the projection P and the moments M changes no bits. When a new
// subspace replaces P, but not M, the old signs affect the updates.
TEST(GaLore, SingularVectorSignsMatterInNewSubspaces) {
  const TrainConfig c = galore_config();
  Optimized plain(c), flipped(c), half_flipped(c);
  for (Optimized* other : {&flipped, &half_flipped}) other->follow(plain, false);
  const auto step = [&] {
    test::draw_gradients(plain.model);
    for (Optimized* other : {&flipped, &half_flipped}) other->follow(plain, true);
    for (Optimized* each : {&plain, &flipped, &half_flipped}) each->optimizer->step(0.01, 1.0);
  };
  step();
  flip(flipped, true);
  flip(half_flipped, false);
  for (int i = 1; i < kEvery; ++i) step();
  EXPECT_TRUE(test::same_bits(test::copies(flipped.model), test::copies(plain.model)));
  EXPECT_FALSE(test::same_bits(test::copies(half_flipped.model), test::copies(plain.model)));
  step();  // selects a new subspace
  for (const auto& p : plain.model->named_parameters()) {
    if (!is_matrix_of_block(p.key(), *p)) continue;
    EXPECT_TRUE(torch::equal(flipped.state["ortho_matrix." + p.key()], plain.state["ortho_matrix." + p.key()]));
    EXPECT_TRUE(torch::equal(flipped.state["exp_avg_sq." + p.key()], plain.state["exp_avg_sq." + p.key()]));
    EXPECT_FALSE(torch::equal(flipped.model->named_parameters()[p.key()], *p)) << p.key();
  }
}

TEST(GaLore, KeepsLowRankMomentsAndAdamWForTheRest) {
  for (const int64_t rank : {kRank, int64_t{1000}}) {  // 1000 is limited to a matrix's smaller side
    TrainConfig c = galore_config();
    c.rank = rank;
    Optimized it(c);
    std::set<std::string> expected;
    for (const auto& p : it.model->named_parameters()) {
      const std::vector<std::string> names{"exp_avg." + p.key(), "exp_avg_sq." + p.key()};
      expected.insert(names.begin(), names.end());
      std::vector<int64_t> moments = p->sizes().vec();
      if (is_matrix_of_block(p.key(), *p)) {
        const int64_t n = p->size(0), m = p->size(1), r = std::min({rank, n, m});
        const std::string projection = "ortho_matrix." + p.key();
        expected.insert(projection);
        EXPECT_EQ(it.state[projection].sizes(), n >= m ? (std::vector{r, m}) : (std::vector{n, r})) << projection;
        moments = n >= m ? std::vector{n, r} : std::vector{r, m};
      }
      for (const std::string& name : names) EXPECT_EQ(it.state[name].sizes(), moments) << name;
    }
    EXPECT_EQ(it.optimizer->state().size(), expected.size());
    for (const auto& [name, tensor] : it.state) EXPECT_TRUE(expected.contains(name)) << name;
    test::draw_gradients(it.model);
    it.optimizer->step(0.01, 1.0);
    EXPECT_EQ(it.optimizer->steps(), 1);
  }
}

}  // namespace
}  // namespace folio::train
