// Tests infer/cache/block_manager.h: allocating, forking, truncating and rolling back the KV blocks of sequences, and
// finding a prompt's prefix in the prefix cache.
#include "infer/cache/block_manager.h"

#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <numeric>

#include "tests/infer/support.h"

namespace folio::infer {
namespace {

using test::random_tokens;

// Simulates the content of the KV blocks: stores which author (a number that the test selects) wrote each position.
class Memory {
 public:
  explicit Memory(BlockManager& cache) : cache_(cache) {}

  // Appends positions up to `end`, written by `author`.
  void fill(SequenceId sequence, int64_t end, int author) {
    const int64_t first = cache_.length(sequence);
    cache_.reserve(sequence, end - first);
    for (const BlockCopy& copy : cache_.copies()) blocks_[copy.to] = blocks_[copy.from];
    for (int64_t p = first; p < end; ++p) blocks_[block(sequence, p)][p % 32] = author * 1000 + p;
    cache_.commit();
  }
  // Expects `author` to have written the positions [first, end).
  void expect(SequenceId sequence, int64_t first, int64_t end, int author) {
    for (int64_t p = first; p < end; ++p) ASSERT_EQ(blocks_[block(sequence, p)][p % 32], author * 1000 + p) << p;
  }

 private:
  [[nodiscard]] BlockId block(SequenceId sequence, int64_t position) const {
    return cache_.table(sequence)[static_cast<size_t>(position / 32)];
  }
  BlockManager& cache_;
  std::map<BlockId, std::map<int64_t, int64_t>> blocks_;
};

void append(BlockManager& cache, SequenceId sequence, int64_t count) {
  cache.reserve(sequence, count);
  cache.commit();
}

std::vector<BlockId> table(const BlockManager& cache, SequenceId sequence) {
  const auto blocks = cache.table(sequence);
  return {blocks.begin(), blocks.end()};
}

TEST(BlockManager, AllocatesABlockPer32Positions) {
  BlockManager cache(100);
  const auto a = cache.add_sequence();
  EXPECT_EQ(cache.blocks_in_use(), 0);
  for (int64_t n = 0; n < 130; ++n) {
    ASSERT_EQ(cache.blocks_needed(a, 1), n % 32 == 0 ? 1 : 0);
    append(cache, a, 1);
    ASSERT_EQ(cache.length(a), n + 1);
    ASSERT_EQ(cache.blocks_in_use(), n / 32 + 1);
    ASSERT_EQ(cache.free_blocks(), 100 - (n / 32 + 1));
  }
  const auto b = cache.add_sequence();
  append(cache, b, 0);
  EXPECT_EQ(cache.length(b), 0);
  EXPECT_EQ(cache.blocks_needed(b, 65), 3);
  append(cache, b, 65);
  EXPECT_EQ(cache.length(b), 65);
  EXPECT_EQ(cache.blocks_in_use(), 8);
}

TEST(BlockManager, ForkCopiesBlocksOnWrite) {
  BlockManager cache(10);
  Memory memory(cache);
  const auto parent = cache.add_sequence();
  memory.fill(parent, 70, 1);
  const auto child = cache.fork(parent);
  EXPECT_NE(child, parent);
  EXPECT_EQ(cache.length(child), 70);
  EXPECT_EQ(cache.blocks_in_use(), 3);
  EXPECT_EQ(table(cache, child), table(cache, parent));
  EXPECT_EQ(cache.blocks_needed(child, 5), 1) << "the last block is copied";

  memory.fill(child, 75, 2);
  EXPECT_EQ(cache.blocks_in_use(), 4);
  EXPECT_EQ(cache.table(child)[1], cache.table(parent)[1]);
  EXPECT_NE(cache.table(child)[2], cache.table(parent)[2]);
  EXPECT_EQ(cache.blocks_needed(parent, 3), 0) << "no longer shared";
  memory.fill(parent, 73, 1);
  EXPECT_EQ(cache.blocks_in_use(), 4);
  memory.expect(parent, 0, 73, 1);
  memory.expect(child, 0, 70, 1);
  memory.expect(child, 70, 75, 2);

  // A truncation may end within a shared block. The next write must copy that block first.
  cache.truncate(child, 20);
  memory.fill(child, 40, 2);
  memory.expect(parent, 0, 73, 1);
  memory.expect(child, 0, 20, 1);
  memory.expect(child, 20, 40, 2);
}

// If two sequences write to a shared block in one step, both copy it, so that a rollback can restore the original.
TEST(BlockManager, BlocksSharedAtAStepsStartAreCopiedByAll) {
  BlockManager cache(10);
  const auto a = cache.add_sequence();
  append(cache, a, 40);
  const auto b = cache.fork(a);
  const auto shared = cache.table(a)[1];
  cache.reserve(a, 1);
  cache.reserve(b, 1);
  EXPECT_EQ(cache.copies().size(), 2U);
  for (const BlockCopy& copy : cache.copies()) EXPECT_EQ(copy.from, shared);
  cache.commit();
  EXPECT_NE(cache.table(a)[1], cache.table(b)[1]);
  EXPECT_EQ(cache.blocks_in_use(), 3) << "the original was freed";
  EXPECT_TRUE(cache.copies().empty());
}

TEST(BlockManager, RollbackRestoresEverything) {
  BlockManager cache(10);
  Memory memory(cache);
  const auto a = cache.add_sequence();
  memory.fill(a, 40, 1);
  const auto b = cache.fork(a);
  const auto c = cache.add_sequence();
  const auto before = table(cache, a);
  for (int round = 0; round < 3; ++round) {
    cache.reserve(a, 60);
    cache.reserve(b, 1);
    cache.reserve(c, 33);
    EXPECT_EQ(cache.length(a), 40) << "not committed";
    EXPECT_EQ(cache.blocks_in_use(), 2 + 3 + 1 + 2);
    EXPECT_ERROR(cache.reserve(a, 1), "already");
    EXPECT_ERROR(cache.truncate(a, 3), "reserved");
    cache.roll_back();
    EXPECT_EQ(cache.blocks_in_use(), 2);
    for (const auto sequence : {a, b}) {
      EXPECT_EQ(cache.length(sequence), 40);
      EXPECT_EQ(table(cache, sequence), before);
    }
    EXPECT_TRUE(cache.table(c).empty());
    EXPECT_TRUE(cache.copies().empty());
  }
  cache.roll_back();
  EXPECT_EQ(cache.length(a), 40) << "what is committed is not undone";
  memory.fill(b, 50, 2);
  memory.expect(a, 0, 40, 1);
  memory.expect(b, 0, 40, 1);
  memory.expect(b, 40, 50, 2);
}

TEST(BlockManager, BlocksAreFreedWithTheirLastSequence) {
  BlockManager cache(10);
  Memory memory(cache);
  const auto parent = cache.add_sequence();
  memory.fill(parent, 70, 1);
  const auto child = cache.fork(parent);
  const auto second = cache.fork(parent);
  cache.release(parent);
  EXPECT_EQ(cache.blocks_in_use(), 3);
  const auto next = cache.add_sequence();  // may reuse the parent's id, but not its blocks
  EXPECT_EQ(cache.length(next), 0);
  memory.fill(next, 64, 5);
  EXPECT_EQ(cache.blocks_in_use(), 5);
  memory.expect(child, 0, 70, 1);
  cache.release(child);
  EXPECT_EQ(cache.blocks_in_use(), 5);
  cache.truncate(second, 33);
  EXPECT_EQ(cache.blocks_in_use(), 4);
  memory.expect(second, 0, 33, 1);
  cache.release(second);
  EXPECT_EQ(cache.blocks_in_use(), 2);
  cache.release(next);
  EXPECT_EQ(cache.blocks_in_use(), 0);
}

TEST(BlockManager, TruncateFreesBlocksFromTheEnd) {
  BlockManager cache(10);
  Memory memory(cache);
  const auto a = cache.add_sequence();
  memory.fill(a, 100, 1);
  const struct {
    int64_t keep, length, blocks;
  } steps[] = {{200, 100, 4}, {100, 100, 4}, {97, 97, 4}, {96, 96, 3}, {65, 65, 3}, {64, 64, 2}, {1, 1, 1}, {0, 0, 0}};
  for (const auto& step : steps) {
    cache.truncate(a, step.keep);
    ASSERT_EQ(cache.length(a), step.length);
    ASSERT_EQ(cache.blocks_in_use(), step.blocks);
    memory.expect(a, 0, step.length, 1);
  }
  EXPECT_ERROR(cache.truncate(a, -1), "-1");
  EXPECT_EQ(cache.length(a), 0);
}

TEST(BlockManager, FullCacheIsAnErrorThatKeepsLengths) {
  BlockManager cache(3);
  Memory memory(cache);
  const auto a = cache.add_sequence();
  const auto b = cache.add_sequence();
  memory.fill(a, 64, 1);
  memory.fill(b, 32, 2);
  const auto refuse = [&](SequenceId sequence, int64_t count) {
    EXPECT_GT(cache.blocks_needed(sequence, count), cache.free_blocks());
    EXPECT_ERROR(cache.reserve(sequence, count), "full");
    cache.roll_back();
    EXPECT_EQ(cache.blocks_in_use(), 3);
  };
  refuse(a, 1);
  refuse(b, 40);
  EXPECT_EQ(cache.length(a), 64);
  EXPECT_EQ(cache.length(b), 32);
  const auto child = cache.fork(a);  // forking uses no additional block
  cache.truncate(child, 60);
  refuse(child, 1);  // fails, since no block is free for a copy of the shared one
  EXPECT_EQ(cache.length(child), 60);
  memory.expect(a, 0, 64, 1);
  memory.expect(child, 0, 60, 1);
  cache.release(b);
  memory.fill(child, 64, 2);
  memory.expect(a, 0, 64, 1);
  memory.expect(child, 60, 64, 2);
}

TEST(BlockManager, UnknownSequencesAreErrors) {
  BlockManager cache(3);
  const auto a = cache.add_sequence();
  for (const SequenceId wrong : {a - 1, a + 1, std::numeric_limits<SequenceId>::min(), 1 << 30}) {
    EXPECT_ERROR(cache.length(wrong), "no sequence");
    EXPECT_ERROR(cache.reserve(wrong, 1), "no sequence");
    EXPECT_ERROR(cache.blocks_needed(wrong, 1), "no sequence");
    EXPECT_ERROR(cache.truncate(wrong, 0), "no sequence");
    EXPECT_ERROR(cache.release(wrong), "no sequence");
    EXPECT_ERROR(cache.table(wrong), "no sequence");
    EXPECT_ERROR(cache.fork(wrong), "no sequence");
  }
  EXPECT_ERROR(cache.reserve(a, -1), "cannot reserve");
  cache.release(a);
  EXPECT_ERROR(cache.length(a), "no sequence");
  EXPECT_ERROR(cache.release(a), "no sequence");
}

// ---- Prefix caching ----

std::vector<int32_t> text_of(size_t n, int32_t first = 0) {
  std::vector<int32_t> text(n);
  std::iota(text.begin(), text.end(), first);
  return text;
}

// Returns a sequence with all tokens of `text` appended and registered in the prefix cache.
SequenceId computed(BlockManager& cache, std::span<const int32_t> text) {
  const SequenceId sequence = cache.add_sequence();
  append(cache, sequence, static_cast<int64_t>(text.size()));
  cache.remember(sequence, text);
  return sequence;
}

TEST(BlockManager, FindsFullBlocksOfAPrefix) {
  BlockManager cache(10);
  const auto text = text_of(100);
  const SequenceId first = computed(cache, text);
  const auto held = table(cache, first);
  const SequenceId second = cache.add_sequence();
  EXPECT_EQ(cache.share_prefix(second, text), 96);
  EXPECT_EQ(table(cache, second), std::vector<BlockId>(held.begin(), held.begin() + 3));
  EXPECT_EQ(cache.blocks_in_use(), 4);
  cache.release(first);
  cache.release(second);
  EXPECT_EQ(cache.blocks_in_use(), 0);
  EXPECT_EQ(cache.free_blocks(), 10);
  EXPECT_EQ(cache.find_prefix(text).length, 96) << "blocks stay cached after their release";
  EXPECT_EQ(cache.find_prefix(text).free_blocks, 3);
  EXPECT_EQ(cache.find_prefix(std::span(text).first(95)).length, 64) << "whole blocks";
  auto other = text;
  other[40] = 7;
  EXPECT_EQ(cache.find_prefix(other).length, 32);
  const SequenceId third = cache.add_sequence();
  EXPECT_EQ(cache.share_prefix(third, other), 32);
  EXPECT_EQ(cache.blocks_in_use(), 1);
  EXPECT_ERROR(cache.share_prefix(third, text), "already has blocks");
}

TEST(BlockManager, EqualTokensAfterAnotherPrefixAreNotShared) {
  BlockManager cache(10);
  std::vector<int32_t> periodic(96);
  for (size_t i = 0; i < periodic.size(); ++i) periodic[i] = static_cast<int32_t>(i % 32);
  const SequenceId a = computed(cache, periodic);
  EXPECT_EQ(cache.find_prefix(periodic).length, 96);
  const SequenceId b = cache.add_sequence();
  cache.share_prefix(b, std::span(periodic).first(32));
  EXPECT_EQ(table(cache, b), std::vector<BlockId>{cache.table(a)[0]}) << "and not the second or third";
}

TEST(BlockManager, EvictsLeastRecentlyUsedBlocks) {
  BlockManager cache(4);
  const auto old = text_of(64);
  const auto young = text_of(64, 1000);
  cache.release(computed(cache, old));
  cache.release(computed(cache, young));
  cache.release(computed(cache, text_of(32, 2000)));  // evicts the last block of `old`
  EXPECT_EQ(cache.find_prefix(old).length, 32);
  EXPECT_EQ(cache.find_prefix(young).length, 64);
  const SequenceId again = cache.add_sequence();
  cache.share_prefix(again, std::span(old).first(32));  // makes the first block of `old` the most recently used
  cache.release(again);
  cache.release(computed(cache, text_of(64, 3000)));
  EXPECT_EQ(cache.find_prefix(old).length, 32);
  EXPECT_EQ(cache.find_prefix(young).length, 0);
}

TEST(BlockManager, OverwrittenBlocksLeaveThePrefixCache) {
  BlockManager cache(4);
  const auto text = text_of(64);
  const SequenceId sequence = computed(cache, text);
  cache.truncate(sequence, 40);
  EXPECT_EQ(cache.find_prefix(text).length, 64) << "truncated, but not overwritten yet";
  append(cache, sequence, 1);
  EXPECT_EQ(cache.find_prefix(text).length, 32);
  auto other = text;
  other[40] = 7;
  append(cache, sequence, 23);
  cache.remember(sequence, other);
  EXPECT_EQ(cache.find_prefix(other).length, 64);
  EXPECT_EQ(cache.find_prefix(text).length, 32);
}

TEST(BlockManager, EqualBlocksAreCachedOnce) {
  BlockManager cache(8);
  const auto text = text_of(70);
  const SequenceId a = cache.add_sequence();
  const SequenceId b = cache.add_sequence();
  append(cache, a, 70);
  append(cache, b, 70);
  cache.remember(a, text);
  cache.remember(b, text);
  cache.release(a);
  cache.release(b);
  EXPECT_EQ(cache.find_prefix(text).free_blocks, 2);
  EXPECT_EQ(cache.free_blocks(), 8);
  const SequenceId all = cache.add_sequence();
  append(cache, all, 8 * 32);  // fails if a block was cached twice and not freed
}

// A sequence that continues a cached sequence of 70 tokens reuses the cached one's two full blocks of 32 positions, and
// its last block, of 6 positions (the tail).
TEST(BlockManager, ContinuationReusesTheTail) {
  BlockManager cache(8);
  Memory memory(cache);
  const auto text = random_tokens(80, 3, 50);
  const auto known = std::span(text).first(70);
  const SequenceId first = cache.add_sequence();
  memory.fill(first, 70, 1);
  cache.remember(first, known);
  EXPECT_EQ(cache.find_prefix(text).length, 64);
  cache.remember_tail(first, known);
  EXPECT_EQ(cache.find_prefix(text).length, 64) << "the first sequence may still append to the tail";
  cache.release(first);
  EXPECT_EQ(cache.blocks_in_use(), 0);
  EXPECT_EQ(cache.find_prefix(text).length, 70);
  EXPECT_EQ(cache.find_prefix(text).free_blocks, 3);
  EXPECT_EQ(cache.find_prefix(known.first(69)).length, 64) << "the tail has another token";
  EXPECT_EQ(cache.find_prefix(text, 0).length, 0) << "cached without this adapter";

  const SequenceId second = cache.add_sequence();
  EXPECT_EQ(cache.share_prefix(second, text), 70);
  EXPECT_EQ(cache.blocks_in_use(), 3);
  EXPECT_EQ(cache.find_prefix(text).length, 64) << "the second sequence uses the tail";
  EXPECT_EQ(cache.blocks_needed(second, 10), 0);
  memory.fill(second, 80, 2);
  EXPECT_TRUE(cache.copies().empty());
  memory.expect(second, 0, 70, 1);
  memory.expect(second, 70, 80, 2);
  cache.release(second);
  EXPECT_EQ(cache.find_prefix(text).length, 64) << "the tail was overwritten, and not cached again";
}

TEST(BlockManager, SelectsTheLongestMatchingTail) {
  BlockManager cache(8);
  const auto text = random_tokens(40, 4, 50);
  for (const size_t n : {34U, 38U, 36U}) {
    const SequenceId sequence = computed(cache, std::span(text).first(n));
    cache.remember_tail(sequence, std::span(text).first(n));
    cache.release(sequence);
  }
  EXPECT_EQ(cache.find_prefix(text).length, 38);
  EXPECT_EQ(cache.find_prefix(std::span(text).first(37)).length, 36);
  auto other = text;
  other[35] = 50;
  EXPECT_EQ(cache.find_prefix(other).length, 34);
  other[33] = 50;
  EXPECT_EQ(cache.find_prefix(other).length, 32);
}

TEST(BlockManager, EvictedTailBecomesAnOrdinaryBlock) {
  BlockManager cache(2);
  const auto text = random_tokens(40, 5, 50);
  const SequenceId first = computed(cache, text);
  cache.remember_tail(first, text);
  cache.release(first);
  const SequenceId other = cache.add_sequence();
  append(cache, other, 32);  // reuses the block that was released first, the tail
  EXPECT_EQ(cache.find_prefix(text).length, 32);
  append(cache, other, 32);
  EXPECT_EQ(cache.find_prefix(text).length, 0);
  EXPECT_THROW(append(cache, other, 1), core::Error);
}

TEST(BlockManager, SharedTailsAreNotCached) {
  BlockManager cache(4);
  const auto text = random_tokens(40, 6, 50);
  const SequenceId first = cache.add_sequence();
  append(cache, first, 40);
  const SequenceId fork = cache.fork(first);
  cache.remember(first, text);
  cache.remember_tail(first, text);
  cache.release(first);
  EXPECT_EQ(cache.find_prefix(text).length, 32);
  cache.release(fork);
  EXPECT_EQ(cache.find_prefix(text).length, 32);
  EXPECT_THROW(cache.remember_tail(cache.add_sequence(), text), core::Error);
}

TEST(BlockManager, OnlyComputedPositionsCanBeCached) {
  BlockManager cache(4);
  const SequenceId sequence = cache.add_sequence();
  append(cache, sequence, 40);
  EXPECT_ERROR(cache.remember(sequence, text_of(41)), "has 40 positions, but 41 tokens were given");
}

}  // namespace
}  // namespace folio::infer
