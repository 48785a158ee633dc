// Tests infer/engine/goodput.h with simulated steps: estimated times and acceptance rates, and chosen draft lengths.
#include "infer/engine/goodput.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

namespace folio::infer {
namespace {

using Candidate = Goodput::Candidate;

StepTime line(double fixed, double per_row) {
  StepTime time;
  time.fixed = fixed;
  time.per_row = per_row;
  return time;
}

// Returns the expected number of tokens per second if sequence i has lengths[i] drafts: tokens / step time.
double rate_of(const StepTime& time, double pass_seconds, std::span<const Candidate> candidates,
               std::span<const size_t> lengths, size_t n_rows) {
  double tokens = static_cast<double>(n_rows);
  size_t n = n_rows, deepest = 0;
  for (size_t i = 0; i < candidates.size(); ++i) {
    double right = candidates[i].first;
    for (size_t d = 0; d < lengths[i]; ++d, right *= candidates[i].next) tokens += right;
    n += lengths[i];
    deepest = std::max(deepest, lengths[i]);
  }
  return tokens / (time(n) + pass_seconds * static_cast<double>(deepest));
}

// Returns the highest rate_of() among all combinations of draft lengths.
double best_rate(const StepTime& time, double pass_seconds, std::span<const Candidate> candidates, size_t n_rows) {
  std::vector<size_t> lengths(candidates.size(), 0);
  double best = 0.0;
  for (;;) {
    best = std::max(best, rate_of(time, pass_seconds, candidates, lengths, n_rows));
    size_t i = 0;
    while (i < candidates.size() && lengths[i] == candidates[i].most) lengths[i++] = 0;
    if (i == candidates.size()) return best;
    ++lengths[i];
  }
}

TEST(Goodput, LengthsAreTheBestOfAllCombinations) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> share(0.0, 1.0);
  size_t n_none = 0, n_all = 0;
  for (int trial = 0; trial < 3000; ++trial) {
    std::vector<Candidate> candidates(1 + random() % 4);
    size_t most = 0;
    for (Candidate& candidate : candidates) {
      candidate = {.first = share(random), .next = share(random), .most = random() % 6};
      if (trial % 10 == 0) candidate.next = 1.0;
      most += candidate.most;
    }
    const size_t n_rows = candidates.size() + random() % 5;
    StepTime time = line(share(random), share(random) / 4);
    for (int i = 0; i < trial % 3 * 20; ++i) time.add(1 + random() % 30, share(random));  // adds irregular times
    const double pass_seconds = trial % 2 == 0 ? 0.0 : share(random) / 4;
    Goodput goodput;
    goodput.set_times(time, pass_seconds);
    const auto lengths = goodput.best(candidates, n_rows);
    for (size_t i = 0; i < candidates.size(); ++i) ASSERT_LE(lengths[i], candidates[i].most);
    const double got = rate_of(time, pass_seconds, candidates, lengths, n_rows);
    ASSERT_NEAR(got, best_rate(time, pass_seconds, candidates, n_rows), 1e-12 * got) << "trial " << trial;
    const size_t n = std::accumulate(lengths.begin(), lengths.end(), size_t{0});
    n_none += n == 0 && most > 0 ? 1 : 0;
    n_all += n == most && most > 0 ? 1 : 0;
  }
  EXPECT_GT(n_none, 100U);
  EXPECT_GT(n_all, 100U);
  EXPECT_TRUE(Goodput().best({}, 0).empty());
}

TEST(StepTime, FindsTheLineUnderNoise) {
  std::mt19937_64 random(2);
  std::normal_distribution<double> noise(1.0, 0.05);
  for (const auto& [fixed, per_row] : {std::pair{5e-3, 2e-3}, {5e-3, 1e-4}, {1e-3, 1e-3}, {0.1, 0.0}}) {
    StepTime time;
    for (int i = 0; i < 300; ++i) {
      const size_t n_rows = 1 + random() % 9;
      const double slow = i % 50 == 49 ? 20.0 : 1.0;  // a rare slow step, as when another process runs
      time.add(n_rows, (fixed + per_row * static_cast<double>(n_rows)) * noise(random) * slow);
    }
    for (const size_t n : {1U, 5U, 9U}) {
      const double expected = fixed + per_row * static_cast<double>(n);
      EXPECT_NEAR(time(n), expected, 0.06 * expected) << fixed << " + " << per_row << " x " << n;
    }
  }
}

TEST(StepTime, LearnsNumbersOfRowsThatDifferFromTheLine) {
  const auto seconds = [](size_t n_rows) { return n_rows <= 2 ? 5.0 : 2.5 * static_cast<double>(n_rows); };
  std::mt19937_64 random(3);
  StepTime time;
  for (int i = 0; i < 500; ++i) {
    const size_t n_rows = 1 + random() % 9;
    time.add(n_rows, seconds(n_rows));
  }
  for (size_t n = 1; n <= 9; ++n) EXPECT_NEAR(time(n), seconds(n), 0.1 * seconds(n)) << n;
}

TEST(StepTime, KeepsTheSlopeWhileAllStepsAreEquallyLong) {
  StepTime time;
  for (int i = 0; i < 100; ++i) time.add(1 + i % 4, 3.0 + static_cast<double>(1 + i % 4));
  EXPECT_NEAR(time.per_row, 1.0, 0.01);
  for (int i = 0; i < 5000; ++i) time.add(1, 4.0);
  EXPECT_NEAR(time.per_row, 1.0, 0.01);
  EXPECT_FALSE(time.recent(4));
  EXPECT_TRUE(time.recent(1));
}

TEST(StepTime, FollowsALastingChange) {
  StepTime time;
  for (int i = 0; i < 200; ++i) time.add(1 + i % 4, 1.0);
  for (int i = 0; i < 100; ++i) time.add(1 + i % 4, 3.0);
  EXPECT_GT(time(2), 2.0);
  for (int i = 0; i < 400; ++i) time.add(1 + i % 4, 3.0);
  EXPECT_NEAR(time(2), 3.0, 0.1);
}

TEST(Acceptance, FollowsTheDrafts) {
  Acceptance a;
  EXPECT_EQ(a.first(), 0.5);
  a.learn(0, 0);
  EXPECT_EQ(a.first(), 0.5);
  a.learn(4, 0);
  EXPECT_EQ(a.first(), 0.25);
  EXPECT_EQ(a.next(), 0.5) << "no draft after a right one was tried";
  for (int i = 0; i < 200; ++i) a.learn(4, 0);
  EXPECT_LT(a.first(), 0.04);
  for (int i = 0; i < 20; ++i) a.learn(4, 4);
  EXPECT_GT(a.first(), 0.6);
  EXPECT_GT(a.next(), 0.95);
  for (int i = 0; i < 300; ++i) a.learn(4, 1 + i % 3);  // after an accepted draft, the next is accepted half the time
  EXPECT_NEAR(a.next(), 0.5, 0.05);
  EXPECT_GT(a.first(), 0.96);
  for (int i = 0; i < 100; ++i) a.learn(1, 1);
  EXPECT_GT(a.next(), 0.85) << "without drafts after the first, it follows the first";
}

TEST(Acceptance, ANewSequenceBeginsWithThatOfTheOthers) {
  Acceptance all(nullptr, 0.99);
  Acceptance repeats(&all);
  for (int i = 0; i < 60; ++i) repeats.learn(4, 4);
  Acceptance next(&all);
  EXPECT_GT(next.first(), 0.98);
  EXPECT_GT(next.next(), 0.98);
  for (int i = 0; i < 8; ++i) next.learn(4, 0);
  EXPECT_NEAR(next.first(), 0.5, 0.05) << "the others' estimate weighs as much as eight own drafts";
  for (int i = 0; i < 22; ++i) next.learn(4, 0);
  EXPECT_LT(next.first(), 0.25);
}

TEST(Acceptance, CountsRecentMisses) {
  Acceptance a;
  for (int i = 0; i < 9; ++i) a.learn(2, 0);
  EXPECT_EQ(a.n_misses(), 6U);
  a.learn(2, 1);
  EXPECT_EQ(a.n_misses(), 3U);
  a.learn(0, 0);
  EXPECT_EQ(a.n_misses(), 3U);
}

// The total time and number of tokens of simulated steps.
struct Drawn {
  double seconds = 0.0;
  double tokens = 0.0;
};
// Simulates n_steps steps of one sequence. Each draft is accepted with probability `right` if all before it are. The
// first drafts after steps without drafts take `pause_seconds` longer.
template <class Seconds>
Drawn run(Goodput& goodput, Acceptance& acceptance, int n_steps, double right, size_t most, double pass_seconds,
          std::mt19937_64& random, const Seconds& seconds_of, double pause_seconds = 0.0) {
  std::uniform_real_distribution<double> share(0.0, 1.0);
  Drawn drawn;
  bool paused = true;
  for (int i = 0; i < n_steps; ++i) {
    const size_t n = goodput.choose(std::vector<Candidate>{{acceptance.first(), acceptance.next(), most}}, 1).front();
    const double drafting = pass_seconds * static_cast<double>(n) + (paused && n > 0 ? pause_seconds : 0.0);
    if (n > 0) goodput.drafted(std::vector<size_t>{n}, drafting, paused);
    paused = n == 0;
    size_t n_right = 0;
    while (n_right < n && share(random) < right) ++n_right;
    acceptance.learn(n, n_right);
    const double seconds = seconds_of(1 + n);
    goodput.measured(1 + n, seconds);
    drawn.seconds += seconds + drafting;
    drawn.tokens += 1.0 + static_cast<double>(n_right);
  }
  return drawn;
}

TEST(Goodput, ReachesTheBestFixedLength) {
  std::mt19937_64 random(4);
  std::normal_distribution<double> noise(1.0, 0.03);
  const auto flat = [](size_t n) { return 1.0 + 0.02 * static_cast<double>(n); };
  const auto steep = [](size_t n) { return 0.5 + 0.5 * static_cast<double>(n); };
  const auto bent = [](size_t n) { return std::max(1.0, 0.45 * static_cast<double>(n)); };
  for (const std::function<double(size_t)>& seconds : {std::function<double(size_t)>(flat), {steep}, {bent}}) {
    for (const double pass_seconds : {0.0, 0.2}) {
      for (const double right : {0.0, 0.1, 0.3, 0.6, 0.9, 1.0}) {
        double best = 0.0;
        for (size_t n = 0; n <= 8; ++n) {
          double tokens = 0.0;
          for (size_t d = 0; d <= n; ++d) tokens += std::pow(right, static_cast<double>(d));
          best = std::max(best, tokens / (seconds(1 + n) + pass_seconds * static_cast<double>(n)));
        }
        Goodput goodput;
        Acceptance acceptance(&goodput.acceptance());
        const auto noisy = [&](size_t n) { return seconds(n) * noise(random); };
        const Drawn drawn = run(goodput, acceptance, 4000, right, 8, pass_seconds, random, noisy);
        EXPECT_GT(drawn.tokens / drawn.seconds, 0.94 * best)
            << seconds(1) << ", " << seconds(9) << ", pass " << pass_seconds << ", right " << right;
      }
    }
  }
}

TEST(Goodput, NoticesThatDraftsBecameRightAtLittleCost) {
  std::mt19937_64 random(5);
  const auto seconds = [](size_t n) { return 0.6 + 0.4 * static_cast<double>(n); };
  Goodput goodput;
  Acceptance acceptance;
  const Drawn poor = run(goodput, acceptance, 3000, 0.0, 8, 0.1, random, seconds);
  EXPECT_GT(poor.tokens / poor.seconds, 0.98) << "without drafts, a step takes 1 s";
  const Drawn found = run(goodput, acceptance, 2000, 1.0, 8, 0.1, random, seconds);
  const Drawn good = run(goodput, acceptance, 500, 1.0, 8, 0.1, random, seconds);
  EXPECT_GT(found.tokens, 2100.0);
  EXPECT_GT(good.tokens / good.seconds, 0.95 * 9 / (seconds(9) + 0.8));
  const Drawn again = run(goodput, acceptance, 500, 0.0, 8, 0.1, random, seconds);
  EXPECT_GT(again.tokens / again.seconds, 0.88) << "and that they became wrong";
}

TEST(Goodput, MeasuresPassesWithoutTheTokensOfAPause) {
  std::mt19937_64 random(6);
  const auto seconds = [](size_t n) { return 0.6 + 0.4 * static_cast<double>(n); };
  Goodput goodput;
  Acceptance acceptance(&goodput.acceptance());
  run(goodput, acceptance, 5000, 0.0, 8, 0.1, random, seconds, 0.5);
  EXPECT_NEAR(goodput.pass_seconds(), 0.1, 0.02);
  run(goodput, acceptance, 2000, 1.0, 8, 0.1, random, seconds, 0.5);
  const Drawn good = run(goodput, acceptance, 500, 1.0, 8, 0.1, random, seconds, 0.5);
  EXPECT_GT(good.tokens / good.seconds, 0.9 * 9 / (seconds(9) + 0.8));
}

}  // namespace
}  // namespace folio::infer
