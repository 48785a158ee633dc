#include "data/batches.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "tests/core/support.h"

namespace folio::data {
namespace {

// Returns n tokens, each of which equals its position.
std::vector<int32_t> places(size_t n) {
  std::vector<int32_t> tokens(n);
  std::iota(tokens.begin(), tokens.end(), 0);
  return tokens;
}

TEST(BatchSampler, TargetsAreTheInputsShiftedByOne) {
  const std::vector<int32_t> tokens = places(100);
  const BatchSampler sampler(tokens, 5, 7, 1);
  for (uint64_t number = 0; number < 20; ++number) {
    const Batch batch = sampler.batch(number);
    ASSERT_EQ(batch.rows, 5);
    ASSERT_EQ(batch.length, 7);
    ASSERT_EQ(batch.inputs.size(), 35U);
    ASSERT_EQ(batch.targets.size(), 35U);
    for (size_t i = 0; i < 35; ++i) {
      EXPECT_EQ(batch.targets[i], batch.inputs[i] + 1);
      EXPECT_EQ(batch.inputs[i], batch.inputs[i - i % 7] + static_cast<int32_t>(i % 7)) << "a row is one window";
    }
  }
}

TEST(BatchSampler, WindowsMayEndAtDocumentEnds) {
  const std::vector<int32_t> tokens{5, 6, 0, 7, 0, 0, 8, 9, 5, 6, 7, 8};
  constexpr int32_t no = Batch::kIgnored;
  const Batch all = consecutive_batch(tokens, 0, 3, 3, {.token = 0});
  EXPECT_EQ(all.inputs, (std::vector<int32_t>{5, 6, 0, 7, 0, 0, 8, 9, 5}));
  EXPECT_EQ(all.targets, (std::vector<int32_t>{6, 0, no, 0, no, no, 9, 5, 6}));
  EXPECT_EQ(all.n_counted(), 6);
  EXPECT_EQ(consecutive_batch(tokens, 0, 3, 3).n_counted(), 9);
  const BatchSampler sampler(tokens, 4, 3, 1, {.token = 0});
  const BatchSampler across(tokens, 4, 3, 1);
  for (uint64_t number = 0; number < 20; ++number) {
    const Batch cut = sampler.batch(number);
    const Batch whole = across.batch(number);
    for (size_t i = 0; i < 12; ++i) {
      const bool ended =
          std::find(whole.targets.begin() + i / 3 * 3, whole.targets.begin() + i, 0) != whole.targets.begin() + i;
      EXPECT_EQ(cut.targets[i], ended ? no : whole.targets[i]);
      EXPECT_EQ(cut.inputs[i], ended ? 0 : whole.inputs[i]);
    }
  }
}

TEST(BatchSampler, MaskedDocumentsBeginWithThePreviousEndToken) {
  const std::vector<int32_t> tokens{5, 6, 0, 7, 0, 8, 8, 9, 0};
  const Batch masked = consecutive_batch(tokens, 0, 2, 4, {.token = 0, .masked = true});
  const Batch across = consecutive_batch(tokens, 0, 2, 4);
  EXPECT_EQ(masked.inputs, across.inputs);
  EXPECT_EQ(masked.targets, across.targets);
  EXPECT_EQ(masked.starts, (std::vector<int32_t>{0, 0, 2, 2, 0, 0, 0, 0}));
  EXPECT_TRUE(across.starts.empty());
}

TEST(BatchSampler, BatchDependsOnlyOnSeedAndNumber) {
  const std::vector<int32_t> tokens = places(1000);
  const BatchSampler a(tokens, 8, 16, 42);
  const BatchSampler b(tokens, 8, 16, 42);
  const Batch seventh = a.batch(7);
  static_cast<void>(b.batch(3));
  EXPECT_EQ(b.batch(7).inputs, seventh.inputs);
  EXPECT_EQ(a.batch(7).inputs, seventh.inputs);
  EXPECT_NE(a.batch(8).inputs, seventh.inputs);
  EXPECT_NE(BatchSampler(tokens, 8, 16, 43).batch(7).inputs, seventh.inputs);
}

TEST(BatchSampler, WindowStartsAreUniform) {
  const std::vector<int32_t> tokens = places(10);
  const BatchSampler sampler(tokens, 7, 3, 5);  // windows start at 0 to 6
  std::map<int32_t, int> times;
  constexpr int kBatches = 1000;
  for (uint64_t number = 0; number < kBatches; ++number) {
    const Batch batch = sampler.batch(number);
    for (size_t row = 0; row < 7; ++row) ++times[batch.inputs[3 * row]];
  }
  ASSERT_EQ(times.size(), 7U);
  EXPECT_EQ(times.begin()->first, 0);
  EXPECT_EQ(times.rbegin()->first, 6);
  // Each start is expected 1000 times. The bound is five standard deviations of sqrt(7000 * 1/7 * 6/7) = 29.
  for (const auto& [start, count] : times) EXPECT_NEAR(count, kBatches, 147) << start;
}

TEST(BatchSampler, WindowMayFillButNotExceedTheSplit) {
  const std::vector<int32_t> tokens = places(9);
  const Batch batch = BatchSampler(tokens, 2, 8, 1).batch(0);
  EXPECT_EQ(batch.inputs, (std::vector<int32_t>{0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(batch.targets.back(), 8);
  EXPECT_ERROR(BatchSampler(tokens, 2, 9, 1), "a context of 9 tokens and its target do not fit in a split of 9");
  EXPECT_ERROR(BatchSampler(tokens, 2, 0, 1), "a context of 0");
  EXPECT_ERROR(BatchSampler(tokens, 2, -1, 1), "a context of -1");
  EXPECT_ERROR(BatchSampler(tokens, 0, 3, 1), "the batch size is 0");
}

TEST(ConsecutiveWindows, CoverTheSplitWithoutOverlap) {
  for (const size_t n : {2U, 9U, 10U, 11U, 12U, 13U, 14U}) {
    const std::vector<int32_t> tokens = places(n);
    for (int64_t length = 1; length < static_cast<int64_t>(n); ++length) {
      const int64_t windows = consecutive_windows(tokens, length);
      const Batch all = consecutive_batch(tokens, 0, windows, length);
      for (size_t i = 0; i < all.inputs.size(); ++i) {
        ASSERT_EQ(all.inputs[i], static_cast<int32_t>(i));
        ASSERT_EQ(all.targets[i], static_cast<int32_t>(i) + 1);
      }
      for (int64_t i = 0; i < windows; ++i) {
        const Batch window = consecutive_batch(tokens, i, 1, length);
        ASSERT_EQ(window.inputs.front(), i * length);
        ASSERT_EQ(window.targets.back(), (i + 1) * length);
      }
      // The tokens after the last window are too few for another window and its last target.
      EXPECT_LT(static_cast<int64_t>(n) - 1 - windows * length, length);
    }
  }
}

TEST(ConsecutiveWindows, RejectsWindowsOutsideTheSplit) {
  const std::vector<int32_t> tokens = places(11);
  EXPECT_EQ(consecutive_windows(tokens, 5), 2);
  EXPECT_ERROR(consecutive_batch(tokens, 1, 2, 5), "windows 1 to 3 of length 5 do not fit in 11 tokens");
  EXPECT_ERROR(consecutive_batch(tokens, -1, 2, 5), "do not fit");
  EXPECT_ERROR(consecutive_windows(tokens, 11), "a context of 11 tokens");
  EXPECT_ERROR(consecutive_windows({}, 1), "do not fit in a split of 0");
}

}  // namespace
}  // namespace folio::data
