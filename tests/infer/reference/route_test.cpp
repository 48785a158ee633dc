// Compares infer/reference/route.h with a computation in double precision that sorts the experts, for each kind of
// score, with and without bias, groups and normalization. Ties go to the expert with the lower index.
// Rows with NaNs never select too many experts.
#include "infer/reference/route.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "tests/infer/support.h"

namespace folio::infer::kernels {
namespace {

using test::random_floats;

// Returns the indices of the n largest values in descending order. Ties are broken in favor of the lower index.
std::vector<size_t> largest(const std::vector<double>& values, size_t n) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values[a] > values[b]; });
  order.resize(n);
  return order;
}

std::vector<double> expected_routes(const std::vector<float>& logits, const std::vector<float>& bias,
                                    const Routing& routing) {
  std::vector<double> scores(logits.begin(), logits.end());
  double sum = 0.0;
  for (double& s : scores) sum += s = routing.sigmoid ? 1.0 / (1.0 + std::exp(-s)) : std::exp(s);
  for (double& s : scores) s /= routing.sigmoid ? 1.0 : sum;
  std::vector<double> by = scores;
  for (size_t i = 0; i < bias.size(); ++i) by[i] += bias[i];
  const size_t size = by.size() / routing.n_groups;
  std::vector<double> groups;
  for (size_t g = 0; g < routing.n_groups; ++g) {
    const std::vector<double> group(&by[g * size], &by[g * size] + size);
    groups.push_back(0.0);
    for (const size_t i : largest(group, std::min<size_t>(routing.groups_by_max ? 1 : 2, size)))
      groups.back() += group[i];
  }
  std::vector<size_t> of_chosen;  // the experts in the selected groups
  std::vector<double> their_scores;
  const auto chosen_groups = largest(groups, routing.groups_chosen);
  for (size_t i = 0; i < by.size(); ++i) {
    if (std::ranges::find(chosen_groups, i / size) == chosen_groups.end()) continue;
    of_chosen.push_back(i);
    their_scores.push_back(by[i]);
  }
  std::vector<double> routes(by.size(), 0.0);
  double total = 0.0;
  for (const size_t i : largest(their_scores, routing.n_chosen)) total += routes[of_chosen[i]] = scores[of_chosen[i]];
  for (double& r : routes) r *= static_cast<double>(routing.scale) / (routing.normalizes ? total : 1.0);
  return routes;
}

TEST(Route, MatchesTheRoutingFormula) {
  constexpr double kU = 0x1.0p-24;
  struct Groups {
    uint32_t n_experts, n_groups, groups_chosen, n_chosen;
  };
  for (const Groups& g : {Groups{8, 1, 1, 2}, Groups{5, 1, 1, 5}, Groups{1, 1, 1, 1}, Groups{128, 1, 1, 8},
                          Groups{12, 4, 2, 4}, Groups{12, 4, 2, 6}, Groups{7, 7, 3, 3}, Groups{256, 8, 4, 8}}) {
    for (const bool sigmoid : {false, true}) {
      for (const bool with_bias : {false, true}) {
        for (const bool normalizes : {false, true}) {
          const Routing routing{.n_experts = g.n_experts,
                                .n_chosen = g.n_chosen,
                                .n_groups = g.n_groups,
                                .groups_chosen = g.groups_chosen,
                                .groups_by_max = normalizes != with_bias,
                                .sigmoid = sigmoid,
                                .normalizes = normalizes,
                                .scale = normalizes ? 2.5F : 1.0F};
          for (uint64_t seed = 0; seed < 20; ++seed) {
            const auto logits = random_floats(g.n_experts, seed, 3.0);
            const auto bias = with_bias ? random_floats(g.n_experts, seed + 100, 0.5) : std::vector<float>{};
            auto got = logits;
            route(got.data(), with_bias ? bias.data() : nullptr, routing);
            const auto expected = expected_routes(logits, bias, routing);
            for (size_t i = 0; i < got.size(); ++i) {
              EXPECT_EQ(got[i] == 0.0F, expected[i] == 0.0) << i << " of " << g.n_experts << ", seed " << seed;
              // Bounds for the number of roundings: 4 in exp, 6 in its argument, 2 n in sums of n terms, and 3 others.
              const double roundings = 4.0 + 6.0 + 2.0 * static_cast<double>(g.n_experts) + 3.0;
              EXPECT_NEAR(got[i], expected[i], roundings * kU * expected[i]);
            }
          }
        }
      }
    }
  }
}

TEST(Route, TiesSelectTheFirst) {
  std::vector<float> all(6, 0.25F);
  route(all.data(), nullptr, {.n_experts = 6, .n_chosen = 2, .normalizes = true});
  EXPECT_EQ(all, (std::vector<float>{0.5F, 0.5F, 0, 0, 0, 0}));
  std::vector<float> two{-1.0F, 3.0F, 0.0F, 3.0F, 3.0F};
  route(two.data(), nullptr, {.n_experts = 5, .n_chosen = 2, .normalizes = true});
  EXPECT_EQ(two, (std::vector<float>{0, 0.5F, 0, 0.5F, 0}));
  std::vector<float> groups(6, 0.0F);  // three groups of two experts; the first two groups are selected
  route(groups.data(), nullptr, {.n_experts = 6, .n_chosen = 3, .n_groups = 3, .groups_chosen = 2});
  EXPECT_TRUE(groups[0] > 0 && groups[1] > 0 && groups[2] > 0);
  EXPECT_EQ(groups[3] + groups[4] + groups[5], 0.0F);
}

TEST(Route, BiasAffectsOnlySelection) {
  std::vector<float> x{2.0F, 1.0F, 0.0F};
  const std::vector<float> bias{-1.0F, 0.0F, 0.5F};
  route(x.data(), bias.data(), {.n_experts = 3, .n_chosen = 1, .sigmoid = true});
  EXPECT_EQ(x[0], 0.0F);
  EXPECT_EQ(x[1], 0.0F);
  EXPECT_EQ(x[2], 0.5F);
}

// A row with NaNs or infinities selects at most `n_chosen` experts.
TEST(Route, NaNRowsSelectAsManyAsOthers) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const bool sigmoid : {false, true}) {
    for (const uint32_t n_groups : {1U, 4U}) {
      for (const bool with_bias : {false, true}) {
        const Routing routing{.n_experts = 8,
                              .n_chosen = 3,
                              .n_groups = n_groups,
                              .groups_chosen = std::min(2U, n_groups),
                              .sigmoid = sigmoid,
                              .normalizes = true};
        for (const float bad : {std::nanf(""), kInfinity, -kInfinity}) {
          for (size_t place = 0; place < 9; ++place) {  // index of the value to replace by `bad`; 8: all
            auto x = random_floats(8, place);
            auto bias = random_floats(8, place + 1);
            auto& hurt = with_bias ? bias : x;
            if (place < 8) {
              hurt[place] = bad;
            } else {
              std::ranges::fill(hurt, bad);
            }
            route(x.data(), with_bias ? bias.data() : nullptr, routing);
            EXPECT_LE(8 - std::ranges::count(x, 0.0F), 3) << bad << " at " << place;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace folio::infer::kernels
