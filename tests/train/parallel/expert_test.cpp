// Tests train/parallel/expert.h: with experts divided among ranks, outputs and gradients equal those of one process.
#include "train/parallel/expert.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <mutex>

#include "tests/modules/mixtures.h"
#include "tests/modules/support.h"
#include "tests/train/parallel/support.h"
#include "train/fused/parts.h"
#include "train/parallel/piece.h"

namespace folio::train::parallel {
namespace {

using folio::test::expect_close;
using folio::test::largest;
using folio::test::mixture_config;
using folio::test::randn;
using test::on_ranks;
using torch::Tensor;

constexpr int64_t kExperts = 4;

Piece piece_of_mixture(const std::string& name, const Tensor& local) {
  return {.name = name, .local = local, .cut_dim = name.starts_with("experts.") ? 0 : -1, .by = Axis::Expert};
}

nn::ExpertProducts products_of(const core::ModelConfig& c, bool fused) {
  return fused ? fused::expert_products(c) : nn::ExpertProducts();
}

// Divides the inputs among ranks: rank i has rows[i] rows. Expects the outputs, and the gradients of sum(y * r) with a
// random r, to equal those of `whole`, which computes all rows in one process.
void expect_as_whole(nn::Mixture& whole, const core::ModelConfig& c, bool fused, const std::vector<int64_t>& rows) {
  const auto n_ranks = static_cast<int64_t>(rows.size());
  std::vector<Tensor> xs, rs;
  for (const int64_t n : rows) {
    xs.push_back(randn({1, n, c.dim}).requires_grad_());
    rs.push_back(randn({1, n, c.dim}));
  }
  whole->zero_grad();
  const Tensor expected = whole->forward(torch::cat(xs, 1));
  (expected * torch::cat(rs, 1)).sum().backward();
  const Tensor all_chosen = whole->take_load().chosen;

  std::mutex mutex;
  std::map<std::string, Tensor> sums;  // sums of the ranks' gradients of replicated parameters
  on_ranks(test::mesh_of({{Axis::Expert, n_ranks}}), [&](World& world) {
    Group& group = world.along({Axis::Expert});
    const auto rank = static_cast<size_t>(group.index());
    ExpertParallelMixture part(c, group, products_of(c, fused));
    part->to(torch::kDouble);
    const auto of_whole = whole->named_parameters();
    {
      const torch::NoGradGuard no_grad;
      for (auto& p : part->named_parameters()) {
        p.value().copy_(part_of(of_whole[p.key()], piece_of_mixture(p.key(), p.value()), world.mesh()));
      }
    }
    const Tensor x = xs[rank].detach().requires_grad_();
    const Tensor y = part->forward(x);
    int64_t first = 0;
    for (size_t i = 0; i < rank; ++i) first += rows[i];
    expect_close(y, expected.narrow(1, first, rows[rank]), 1e-13 * largest(expected));
    Tensor chosen = part->take_load().chosen;
    (y * rs[rank]).sum().backward();
    expect_close(x.grad(), xs[rank].grad(), 1e-12 * largest(xs[rank].grad()));
    group.sum(chosen);
    EXPECT_TRUE(chosen.equal(all_chosen));

    for (const auto& p : part->named_parameters()) {
      if (!p.value().requires_grad()) continue;
      const Piece piece = piece_of_mixture(p.key(), p.value());
      ASSERT_TRUE(p.value().grad().defined()) << p.key();
      if (piece.cut_dim < 0) {
        const std::lock_guard lock(mutex);
        auto& sum = sums[p.key()];
        sum = sum.defined() ? sum + p.value().grad() : p.value().grad().clone();
      } else {
        const Tensor of_all = of_whole[p.key()].grad();
        expect_close(p.value().grad(), part_of(of_all, piece, world.mesh()), 1e-12 * largest(of_all));
      }
    }
  });
  EXPECT_GE(sums.size(), 1U);
  for (const auto& [name, sum] : sums) {
    const Tensor of_all = whole->named_parameters()[name].grad();
    expect_close(sum, of_all, 1e-12 * largest(of_all));
  }
}

TEST(ExpertParallel, OutputsAndGradientsMatchTheWholeMixture) {
  torch::manual_seed(3);
  for (const core::ModelConfig& c : folio::test::mixture_configs()) {
    SCOPED_TRACE(core::info(c.family).name);
    for (const bool fused : {false, true}) {
      auto whole = folio::test::in_double(nn::Mixture(c, products_of(c, fused)), 0.5);
      expect_as_whole(whole, c, fused, {5, 5});
      expect_as_whole(whole, c, fused, {1, 9});
      expect_as_whole(whole, c, fused, {3, 1, 6, 2});
      // With equal logits, all rows select the same two of four experts. Ranks with the other two get no rows, but must
      // join the collectives and have zero gradients.
      whole->named_parameters()["router.weight"].set_data(torch::zeros({kExperts, c.dim}, torch::kDouble));
      expect_as_whole(whole, c, fused, {4, 4, 3, 2});
    }
  }
}

TEST(ExpertParallel, SendsARowPerRemoteExpert) {
  torch::manual_seed(3);
  const core::ModelConfig c = mixture_config(core::Family::Mixtral);
  const auto router = randn({kExperts, c.dim});
  const auto x = randn({1, 6, c.dim});
  on_ranks(test::mesh_of({{Axis::Expert, 2}}), [&](World& world) {
    Group& group = world.along({Axis::Expert});
    ExpertParallelMixture part(c, group);
    part->to(torch::kDouble);
    const torch::NoGradGuard no_grad;
    part->named_parameters()["router.weight"].copy_(router);
    static_cast<void>(part->forward(x));
    const Tensor chosen = part->take_load().chosen;
    const auto here = chosen.view({2, -1}).sum(1)[group.index()].item<int64_t>();
    const int64_t away = 2 * 6 - here;  // assignments to remote experts: 6 rows have 2 each
    // Both ranks have the same rows. So each sends `away` rows to the other, receives `here` rows for its own experts,
    // and returns their outputs.
    const int64_t counts = kExperts / 2 * 8;
    EXPECT_EQ(group.bytes_sent(), counts + (away + here) * c.dim * 8);
  });
}

}  // namespace
}  // namespace folio::train::parallel
