#include "data/chat/packing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "core/random.h"
#include "tests/core/support.h"

namespace folio::data {
namespace {

constexpr int32_t kPadding = 7777;

// Returns n examples. Example i has 2 to `longest` tokens: 1000 i, 1000 i + 1, and so on. The last token and some of
// the others are learned.
std::vector<ChatExample> examples(size_t n, size_t longest, uint64_t seed) {
  std::vector<ChatExample> all;
  for (size_t i = 0; i < n; ++i) {
    ChatExample example;
    const size_t length = 2 + core::random_below(seed, i, longest - 1);
    for (size_t t = 0; t < length; ++t) {
      example.tokens.push_back(static_cast<int32_t>(1000 * i + t));
      example.is_learned.push_back(t + 1 == length || (t > 0 && core::random_below(seed + 1, 1000 * i + t, 3) == 0));
    }
    all.push_back(std::move(example));
  }
  return all;
}

struct Target {
  int32_t token;
  int32_t before;  // the input token at the same position
  int32_t first;   // the first token of the sequence that contains the target
  auto operator<=>(const Target&) const = default;
};

// Returns the sorted targets of `n_windows` windows, beginning with batch `first`.
std::vector<Target> targets_of(const BatchOf& batches, uint64_t first, int64_t n_windows) {
  std::vector<Target> targets;
  for (uint64_t number = first; n_windows > 0; ++number) {
    const Batch batch = batches(number);
    EXPECT_EQ(std::ssize(batch.inputs), batch.rows * batch.length);
    EXPECT_EQ(std::ssize(batch.targets), batch.rows * batch.length);
    EXPECT_EQ(std::ssize(batch.starts), batch.rows * batch.length);
    for (int64_t row = 0; row < batch.rows && n_windows > 0; ++row, --n_windows) {
      for (int64_t t = 0; t < batch.length; ++t) {
        const auto at = static_cast<size_t>(row * batch.length + t);
        const auto start = static_cast<size_t>(row * batch.length + batch.starts[at]);
        EXPECT_LE(start, at);
        if (batch.targets[at] == Batch::kIgnored) continue;
        targets.push_back({batch.targets[at], batch.inputs[at], batch.inputs[start]});
      }
    }
  }
  std::sort(targets.begin(), targets.end());
  return targets;
}

std::vector<Target> learned(const std::vector<ChatExample>& all) {
  std::vector<Target> targets;
  for (const ChatExample& example : all) {
    for (size_t t = 1; t < example.tokens.size(); ++t) {
      if (example.is_learned[t]) targets.push_back({example.tokens[t], example.tokens[t - 1], example.tokens[0]});
    }
  }
  std::sort(targets.begin(), targets.end());
  return targets;
}

TEST(PackedExamples, EpochTrainsOnEachLearnedTokenOnce) {
  for (const uint64_t seed : {1, 2, 3}) {
    const auto all = examples(57, 33, seed);
    const PackedExamples packed(all, 32, kPadding);
    ASSERT_EQ(packed.n_learned(), std::ssize(learned(all)));
    ASSERT_GT(packed.n_windows(), 3);
    EXPECT_EQ(packed.n_cut(), 0);
    // With one row per batch, an epoch consists of whole batches.
    const BatchOf batches = packed.shuffled(1, seed);
    for (uint64_t epoch = 0; epoch < 3; ++epoch) {
      EXPECT_EQ(targets_of(batches, epoch * static_cast<uint64_t>(packed.n_windows()), packed.n_windows()),
                learned(all));
    }
    const Batches in_order = packed.in_order();
    EXPECT_EQ(targets_of(in_order.batch, 0, packed.n_windows()), learned(all));
    int64_t rows = 0;
    for (uint64_t number = 0; number < in_order.n; ++number) rows += in_order.batch(number).rows;
    EXPECT_EQ(rows, packed.n_windows());
  }
}

TEST(PackedExamples, SequencesStartAtTheFirstTokenOfAnExample) {
  const auto all = examples(40, 20, 5);
  const Batch batch = PackedExamples(all, 32, kPadding).shuffled(4, 1)(0);
  for (size_t at = 0; at < batch.inputs.size(); ++at) {
    const size_t row = at / 32 * 32;
    const auto start = row + static_cast<size_t>(batch.starts[at]);
    if (batch.inputs[at] == kPadding) {
      EXPECT_EQ(batch.targets[at], Batch::kIgnored);
      EXPECT_EQ(batch.inputs[start], kPadding) << "padding is a sequence of its own";
    } else {
      EXPECT_EQ(batch.inputs[at] - batch.inputs[start], static_cast<int32_t>(at - start));
      EXPECT_EQ(batch.inputs[start] % 1000, 0);
    }
  }
}

TEST(PackedExamples, BatchDependsOnlyOnSeedAndNumber) {
  const auto all = examples(50, 12, 9);
  const PackedExamples packed(all, 16, kPadding);
  const PackedExamples again(all, 16, kPadding);
  const BatchOf a = packed.shuffled(3, 42);
  const BatchOf b = again.shuffled(3, 42);
  std::map<uint64_t, Batch> first;
  for (uint64_t number = 0; number < 40; ++number) first[number] = a(number);
  for (const uint64_t number : {39, 7, 0, 22, 7}) {
    const Batch batch = b(number);
    EXPECT_EQ(batch.inputs, first[number].inputs);
    EXPECT_EQ(batch.targets, first[number].targets);
    EXPECT_EQ(batch.starts, first[number].starts);
  }
  EXPECT_NE(packed.shuffled(3, 43)(0).inputs, first[0].inputs);
}

TEST(PackedExamples, EpochsDiffer) {
  const PackedExamples packed(examples(50, 12, 9), 16, kPadding);
  const BatchOf batches = packed.shuffled(1, 1);
  const auto n = static_cast<uint64_t>(packed.n_windows());
  size_t same = 0;
  for (uint64_t i = 0; i < n; ++i) same += batches(i).inputs == batches(n + i).inputs ? 1 : 0;
  EXPECT_LT(same, n / 2);
}

TEST(PackedExamples, BestFitDecreasingFillsWindows) {
  std::vector<ChatExample> all;
  for (const size_t n_inputs : {6, 5, 4, 3, 2}) {  // fills windows of ten: 6 + 4, 5 + 3 + 2
    all.push_back({.tokens = std::vector<int32_t>(n_inputs + 1, static_cast<int32_t>(n_inputs)),
                   .is_learned = std::vector<bool>(n_inputs + 1, true)});
  }
  const PackedExamples packed(all, 10, kPadding);
  EXPECT_EQ(packed.n_windows(), 2);
  EXPECT_EQ(packed.fullness(), 1.0);
  EXPECT_EQ(packed.in_order().batch(0).inputs,
            (std::vector<int32_t>{6, 6, 6, 6, 6, 6, 4, 4, 4, 4, 5, 5, 5, 5, 5, 3, 3, 3, 2, 2}));
}

TEST(PackedExamples, CutsAndCountsLongExamples) {
  const ChatExample too_long{.tokens = {1, 2, 3, 4, 5, 6}, .is_learned = {false, true, false, false, true, true}};
  const ChatExample late{.tokens = {1, 2, 3, 4, 5, 6}, .is_learned = {false, false, false, false, false, true}};
  const ChatExample fits{.tokens = {1, 2, 3, 4}, .is_learned = {false, false, false, true}};
  const PackedExamples packed({too_long, late, fits}, 3, kPadding);
  EXPECT_EQ(packed.n_cut(), 2);
  EXPECT_EQ(packed.n_lost(), 3);
  EXPECT_EQ(packed.n_learned(), 2);
  EXPECT_EQ(packed.n_windows(), 2) << "examples without learned tokens are dropped";
  EXPECT_ERROR(PackedExamples({late}, 3, kPadding), "no answer begins within the first 3 tokens");
  EXPECT_ERROR(PackedExamples({}, 3, kPadding), "no answer");
}

}  // namespace
}  // namespace folio::data
