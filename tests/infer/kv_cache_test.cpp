// Laws of infer/cache/kv_cache.h: a position is found again where it was stored, blocks are counted, what is shared is
// copied before it is written, and what does not fit changes nothing.
#include "infer/cache/kv_cache.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/infer/support.h"

namespace folio::infer {
namespace {

using test::alone;
using test::random_floats;
using test::random_tokens;
using test::rows_of;
using test::run;
using test::same_bits;

const core::ModelConfig kConfig{.vocab_size = 37,
                                .dim = 60,
                                .n_layers = 2,
                                .n_heads = 6,
                                .n_kv_heads = 2,
                                .hidden_dim = 33,
                                .context_length = 200,
                                .tie_embeddings = false};
constexpr auto kKvDim = size_t{20};

std::vector<float> key_of(SequenceId sequence, int64_t layer, int64_t position) {
  return random_floats(kKvDim, static_cast<uint64_t>((sequence * 7 + layer) * 1000 + position));
}

std::vector<float> value_of(SequenceId sequence, int64_t layer, int64_t position) {
  return random_floats(kKvDim, static_cast<uint64_t>((sequence * 7 + layer) * 1000 + position) + 1'000'000);
}

// Reserves and stores positions [first, end) as `author` would.
void fill(KvCache& cache, SequenceId sequence, int64_t first, int64_t end, SequenceId author) {
  cache.reserve(sequence, first, end - first);
  for (int64_t position = first; position < end; ++position) {
    for (int64_t layer = 0; layer < kConfig.n_layers; ++layer) {
      cache.store(sequence, layer, position, key_of(author, layer, position).data(),
                  value_of(author, layer, position).data());
    }
  }
}

// Expects positions [first, end) to be what `author` stored, in the layout that kv_cache.h gives.
void expect_held(const KvCache& cache, SequenceId sequence, int64_t first, int64_t end, SequenceId author) {
  for (int64_t position = first; position < end; ++position) {
    const auto slot = static_cast<size_t>(position % 32);
    const float* block = cache.blocks(sequence)[position / 32];
    for (int64_t layer = 0; layer < kConfig.n_layers; ++layer) {
      const auto key = key_of(author, layer, position);
      const auto value = value_of(author, layer, position);
      for (size_t i = 0; i < kKvDim; ++i) {
        const auto head = static_cast<int64_t>(i / 10);
        const size_t d = i % 10;
        ASSERT_EQ(block[cache.key_offset(layer, head) + d * 32 + slot], key[i]) << position << ' ' << layer << ' ' << i;
        ASSERT_EQ(block[cache.value_offset(layer, head) + slot * 10 + d], value[i])
            << position << ' ' << layer << ' ' << i;
      }
    }
  }
}

TEST(KvCache, HoldsEachPositionOfEachLayerAndHead) {
  KvCache cache(kConfig, 8);
  const auto a = cache.add_sequence();
  const auto b = cache.add_sequence();
  for (int64_t position = 0; position < 70; ++position) {  // turn by turn, so that blocks interleave
    fill(cache, a, position, position + 1, a);
    fill(cache, b, position, position + 1, b);
  }
  EXPECT_EQ(cache.length(a), 70);
  EXPECT_EQ(cache.blocks_in_use(), 6);
  expect_held(cache, a, 0, 70, a);
  expect_held(cache, b, 0, 70, b);
}

TEST(KvCache, RegionsOfABlockDoNotOverlapAndFillIt) {
  const KvCache cache(kConfig, 1);
  const size_t region = 10 * 32;
  std::vector<bool> taken(cache.block_bytes() / sizeof(float), false);
  for (int64_t layer = 0; layer < kConfig.n_layers; ++layer) {
    for (int64_t head = 0; head < kConfig.n_kv_heads; ++head) {
      for (const size_t first : {cache.key_offset(layer, head), cache.value_offset(layer, head)}) {
        ASSERT_LE(first + region, taken.size());
        for (size_t i = first; i < first + region; ++i) {
          ASSERT_FALSE(taken[i]);
          taken[i] = true;
        }
      }
    }
  }
  EXPECT_EQ(std::count(taken.begin(), taken.end(), false), 0);
}

TEST(KvCache, TakesABlockForEach32Positions) {
  KvCache cache(kConfig, 100);
  const auto a = cache.add_sequence();
  EXPECT_EQ(cache.blocks_in_use(), 0);
  for (int64_t n = 0; n < 130; ++n) {
    cache.reserve(a, n, 1);
    ASSERT_EQ(cache.length(a), n + 1);
    ASSERT_EQ(cache.blocks_in_use(), n / 32 + 1);
  }
  const auto b = cache.add_sequence();
  cache.reserve(b, 0, 0);
  EXPECT_EQ(cache.length(b), 0);
  cache.reserve(b, 0, 65);
  EXPECT_EQ(cache.length(b), 65);
  EXPECT_EQ(cache.blocks_in_use(), 8);
}

TEST(KvCache, ForkSharesBlocksUntilOneIsWritten) {
  KvCache cache(kConfig, 10);
  const auto parent = cache.add_sequence();
  fill(cache, parent, 0, 70, parent);
  const auto child = cache.fork(parent);
  EXPECT_NE(child, parent);
  EXPECT_EQ(cache.length(child), 70);
  EXPECT_EQ(cache.blocks_in_use(), 3);
  for (size_t b = 0; b < 3; ++b) EXPECT_EQ(cache.blocks(child)[b], cache.blocks(parent)[b]);

  const auto other = cache.add_sequence();  // only a name for what the child writes
  fill(cache, child, 70, 75, other);
  EXPECT_EQ(cache.blocks_in_use(), 4);
  EXPECT_EQ(cache.blocks(child)[1], cache.blocks(parent)[1]);
  EXPECT_NE(cache.blocks(child)[2], cache.blocks(parent)[2]);
  fill(cache, parent, 70, 73, parent);  // now its own: nothing is copied
  EXPECT_EQ(cache.blocks_in_use(), 4);
  expect_held(cache, parent, 0, 73, parent);
  expect_held(cache, child, 0, 70, parent);
  expect_held(cache, child, 70, 75, other);

  // Going back into the shared part copies there too.
  cache.truncate(child, 20);
  fill(cache, child, 20, 40, other);
  expect_held(cache, parent, 0, 73, parent);
  expect_held(cache, child, 0, 20, parent);
  expect_held(cache, child, 20, 40, other);
}

TEST(KvCache, TheParentMayWriteFirst) {
  KvCache cache(kConfig, 10);
  const auto parent = cache.add_sequence();
  fill(cache, parent, 0, 40, parent);
  const auto child = cache.fork(parent);
  const auto grandchild = cache.fork(child);
  const auto other = cache.add_sequence();
  fill(cache, parent, 40, 60, other);
  expect_held(cache, child, 0, 40, parent);
  expect_held(cache, grandchild, 0, 40, parent);
  expect_held(cache, parent, 0, 40, parent);
  expect_held(cache, parent, 40, 60, other);
}

TEST(KvCache, BlocksLiveAsLongAsAnyoneHoldsThem) {
  KvCache cache(kConfig, 10);
  const auto parent = cache.add_sequence();
  fill(cache, parent, 0, 70, parent);
  const auto child = cache.fork(parent);
  const auto second = cache.fork(parent);
  cache.release(parent);
  EXPECT_EQ(cache.blocks_in_use(), 3);
  const auto next = cache.add_sequence();  // may take the parent's id, never its blocks
  EXPECT_EQ(cache.length(next), 0);
  fill(cache, next, 0, 64, 5);
  EXPECT_EQ(cache.blocks_in_use(), 5);
  expect_held(cache, child, 0, 70, parent);
  cache.release(child);
  EXPECT_EQ(cache.blocks_in_use(), 5);
  cache.truncate(second, 33);
  EXPECT_EQ(cache.blocks_in_use(), 4);
  expect_held(cache, second, 0, 33, parent);
  cache.release(second);
  EXPECT_EQ(cache.blocks_in_use(), 2);
  cache.release(next);
  EXPECT_EQ(cache.blocks_in_use(), 0);
}

TEST(KvCache, TruncateForgetsFromTheEnd) {
  KvCache cache(kConfig, 10);
  const auto a = cache.add_sequence();
  fill(cache, a, 0, 100, a);
  const struct {
    int64_t keep, length, blocks;
  } steps[] = {{200, 100, 4}, {100, 100, 4}, {97, 97, 4}, {96, 96, 3}, {65, 65, 3}, {64, 64, 2}, {1, 1, 1}, {0, 0, 0}};
  for (const auto& step : steps) {
    cache.truncate(a, step.keep);
    ASSERT_EQ(cache.length(a), step.length);
    ASSERT_EQ(cache.blocks_in_use(), step.blocks);
    expect_held(cache, a, 0, step.length, a);
  }
  EXPECT_ERROR(cache.truncate(a, -1), "-1");
  EXPECT_EQ(cache.length(a), 0);
}

TEST(KvCache, GivesBlocksOutAgain) {
  KvCache cache(kConfig, 4);
  for (int round = 0; round < 50; ++round) {
    const auto a = cache.add_sequence();
    const auto b = cache.add_sequence();
    fill(cache, a, 0, 40, a);
    fill(cache, b, 0, 33, b);
    ASSERT_EQ(cache.blocks_in_use(), 4);
    expect_held(cache, a, 0, 40, a);
    expect_held(cache, b, 0, 33, b);
    cache.release(round % 2 == 0 ? a : b);
    cache.release(round % 2 == 0 ? b : a);
    ASSERT_EQ(cache.blocks_in_use(), 0);
    ASSERT_LE(std::max(a, b), 1) << "ids are used again";
  }
}

TEST(KvCache, FullIsAnErrorThatLeavesLengths) {
  KvCache cache(kConfig, 3);
  const auto a = cache.add_sequence();
  const auto b = cache.add_sequence();
  fill(cache, a, 0, 64, a);
  fill(cache, b, 0, 32, b);
  EXPECT_ERROR(cache.reserve(a, 64, 1), "full");
  EXPECT_ERROR(cache.reserve(b, 32, 40), "full");
  EXPECT_EQ(cache.length(a), 64);
  EXPECT_EQ(cache.length(b), 32);
  const auto child = cache.fork(a);  // takes no block by itself
  cache.truncate(child, 60);
  EXPECT_ERROR(cache.reserve(child, 60, 1), "full");  // a copy would need one
  EXPECT_EQ(cache.length(child), 60);
  expect_held(cache, a, 0, 64, a);
  expect_held(cache, child, 0, 60, a);
  cache.release(b);
  fill(cache, child, 60, 64, b);
  expect_held(cache, a, 0, 64, a);
  expect_held(cache, child, 60, 64, b);
}

TEST(KvCache, UnknownSequencesAndGapsAreErrors) {
  KvCache cache(kConfig, 3);
  const auto a = cache.add_sequence();
  for (const SequenceId wrong : {a - 1, a + 1, std::numeric_limits<SequenceId>::min(), 1 << 30}) {
    EXPECT_ERROR(cache.length(wrong), "no sequence");
    EXPECT_ERROR(cache.reserve(wrong, 0, 1), "no sequence");
    EXPECT_ERROR(cache.truncate(wrong, 0), "no sequence");
    EXPECT_ERROR(cache.release(wrong), "no sequence");
    EXPECT_ERROR(cache.blocks(wrong), "no sequence");
    EXPECT_ERROR(cache.fork(wrong), "no sequence");
  }
  EXPECT_ERROR(cache.reserve(a, 1, 1), "cannot reserve");
  EXPECT_ERROR(cache.reserve(a, -1, 1), "cannot reserve");
  EXPECT_ERROR(cache.reserve(a, 0, -1), "cannot reserve");
  cache.release(a);
  EXPECT_ERROR(cache.length(a), "no sequence");
  EXPECT_ERROR(cache.release(a), "no sequence");
}

TEST(KvCache, ForkOfAReleasedSequenceIsAnErrorAndMakesNone) {
  KvCache cache(kConfig, 3);
  const auto a = cache.add_sequence();
  const auto b = cache.add_sequence();
  cache.release(a);
  EXPECT_ERROR(cache.fork(a), "no sequence");
  EXPECT_ERROR(cache.length(a), "no sequence");
  EXPECT_EQ(cache.add_sequence(), a);
  EXPECT_EQ(cache.add_sequence(), b + 1);
}

// Interleaved sequences, released and dirty blocks, tables in any order: a decode from such a cache gives the bytes of
// one call with the whole sequence in a cache of its own.
TEST(KvCache, PagedEqualsRecomputed) {
  const Model model = test::random_model(kConfig);
  Engine engine(model, {.n_threads = 1, .max_positions = 16 * 32});
  KvCache& cache = engine.cache();
  constexpr size_t kLength = 120;
  const auto tokens_a = random_tokens(kLength, 1, kConfig.vocab_size);
  const auto tokens_b = random_tokens(kLength, 2, kConfig.vocab_size);
  const auto expected_a = alone(model, tokens_a);
  const auto expected_b = alone(model, tokens_b);
  const auto dirt = cache.add_sequence();
  run(engine, rows_of(dirt, random_tokens(200, 3, kConfig.vocab_size)));
  cache.release(dirt);
  const auto a = cache.add_sequence();
  const auto b = cache.add_sequence();
  const auto vocab = static_cast<size_t>(kConfig.vocab_size);
  for (size_t i = 0; i < kLength; ++i) {
    const auto at = static_cast<int64_t>(i);
    const auto got_a = run(engine, rows_of(a, std::span(tokens_a).subspan(i, 1), at));
    const auto got_b = run(engine, rows_of(b, std::span(tokens_b).subspan(i, 1), at));
    ASSERT_TRUE(same_bits(got_a, std::span(expected_a).subspan(i * vocab, vocab))) << "position " << i;
    ASSERT_TRUE(same_bits(got_b, std::span(expected_b).subspan(i * vocab, vocab))) << "position " << i;
    if (i == 50) {  // forget the last 37 of one and compute them anew
      cache.truncate(a, 14);
      run(engine, rows_of(a, std::span(tokens_a).subspan(14, 37), 14));
    }
  }
}

TEST(KvCache, BranchesOfAForkEqualRecomputed) {
  const Model model = test::random_model(kConfig);
  const auto vocab = static_cast<size_t>(kConfig.vocab_size);
  for (const size_t at : {1U, 31U, 32U, 33U, 50U, 64U}) {
    Engine engine(model, {.n_threads = 1, .max_positions = 20 * 32});
    KvCache& cache = engine.cache();
    const auto common = random_tokens(at, 5, kConfig.vocab_size);
    const auto parent = cache.add_sequence();
    run(engine, rows_of(parent, common));
    std::vector<SequenceId> branches{parent, cache.fork(parent), cache.fork(parent)};
    std::vector<std::vector<int32_t>> texts;
    std::vector<Row> rows;  // all branches go on in one ragged batch
    for (size_t i = 0; i < branches.size(); ++i) {
      const auto own = random_tokens(20 + i, 100 + i, kConfig.vocab_size);
      const auto more = rows_of(branches[i], own, static_cast<int64_t>(at));
      rows.insert(rows.end(), more.begin(), more.end());
      texts.push_back(common);
      texts.back().insert(texts.back().end(), own.begin(), own.end());
    }
    const auto got = run(engine, rows);
    size_t first = 0;
    for (size_t i = 0; i < branches.size(); ++i) {
      const auto expected = alone(model, texts[i]);
      const size_t count = (20 + i) * vocab;
      ASSERT_TRUE(same_bits(std::span(got).subspan(first, count), std::span(expected).last(count)))
          << "branch " << i << " at " << at;
      first += count;
    }
  }
}

}  // namespace
}  // namespace folio::infer
