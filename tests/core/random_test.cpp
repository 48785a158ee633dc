// Tests core/random.h: the generator gives SplitMix64's published outputs, and a draw depends only on (seed, counter).
#include "core/random.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <set>

namespace folio::core {
namespace {

TEST(Random, SplitMixMatchesTheReferenceStream) {
  // Outputs of the reference implementation for seed 1234567, which adds gamma to its state at each step.
  constexpr uint64_t kGamma = 0x9E3779B97F4A7C15ULL;
  constexpr std::array<uint64_t, 5> kStream{6457827717110365317ULL, 3203168211198807973ULL, 9817491932198370423ULL,
                                            4593380528125082431ULL, 16408922859458223821ULL};
  for (uint64_t i = 0; i < kStream.size(); ++i) EXPECT_EQ(splitmix64(1234567 + i * kGamma), kStream[i]);
}

TEST(Random, AdjacentSeedsAndCountersDiffer) {
  std::set<uint64_t> seen;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    for (uint64_t counter = 0; counter < 100; ++counter) seen.insert(random_bits(seed, counter));
  }
  EXPECT_EQ(seen.size(), 10000U);
}

TEST(Random, UniformIsBelowOneAndUniform) {
  constexpr int kDraws = 100000;
  std::array<int, 16> bins{};
  double sum = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double u = random_uniform(42, static_cast<uint64_t>(i));
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    ++bins[static_cast<size_t>(u * 16)];
    sum += u;
  }
  // The bounds are five standard deviations: of a mean of uniform values, and of a binomial count.
  EXPECT_NEAR(sum / kDraws, 0.5, 5 / std::sqrt(12.0 * kDraws));
  for (const int bin : bins) EXPECT_NEAR(bin, kDraws / 16.0, 5 * std::sqrt(kDraws / 16.0 * 15 / 16));
}

TEST(Random, BelowIsInRangeAndUniform) {
  for (const uint64_t n : {uint64_t{1}, uint64_t{2}, uint64_t{3}, uint64_t{10}, uint64_t{66}}) {
    constexpr int kDraws = 50000;
    std::array<int, 66> bins{};
    for (int i = 0; i < kDraws; ++i) {
      const uint64_t k = random_below(7, static_cast<uint64_t>(i), n);
      ASSERT_LT(k, n);
      ++bins[k];
    }
    const double p = 1.0 / static_cast<double>(n);
    for (uint64_t k = 0; k < n; ++k) EXPECT_NEAR(bins[k], kDraws * p, 5 * std::sqrt(kDraws * p * (1 - p)) + 1e-9);
  }
}

TEST(Random, BelowCoversHugeRanges) {
  uint64_t highest = 0;
  for (uint64_t i = 0; i < 1000; ++i) highest = std::max(highest, random_below(1, i, UINT64_MAX));
  EXPECT_GT(highest, UINT64_MAX / 100 * 98);
}

}  // namespace
}  // namespace folio::core
