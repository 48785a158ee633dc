// Laws of shards (infer/shards): logits have the same bytes on any number of them, in every type, family and shape;
// what they give each other is what the formula says; observers see whole slots; a shard that fails fails the step
// alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <map>
#include <new>
#include <string>

#include "infer/forward/runner.h"
#include "infer/shards/local_exchange.h"
#include "infer/shards/sharded_cpu.h"
#include "tests/core/support.h"
#include "tests/infer/support.h"

namespace folio::infer {
namespace {

using test::same_bits;
using test::Shape;

size_t most_shards(const core::ModelConfig& config) {
  return std::min<size_t>(4, shard_tiles(static_cast<size_t>(config.dim)));
}

std::vector<float> logits_on(Machine& machine, const core::StoredModel& model, std::span<const int32_t> text,
                             CacheType cache_type, const Observer& observer = {}) {
  Runner runner(model, machine, {.type = cache_type});
  const auto sequence = runner.cache().add_sequence();
  // A prompt, and then a token at a time.
  auto logits = test::run(runner, test::rows_of(sequence, text.first(text.size() - 3)), observer);
  for (size_t i = text.size() - 3; i < text.size(); ++i) {
    const auto some = test::run(runner, test::rows_of(sequence, text.subspan(i, 1), static_cast<int64_t>(i)), observer);
    logits.insert(logits.end(), some.begin(), some.end());
  }
  return logits;
}

class ShardsOf : public ::testing::TestWithParam<Shape> {};

INSTANTIATE_TEST_SUITE_P(Shapes, ShardsOf, ::testing::ValuesIn(test::all_shapes()), test::shape_name);

TEST_P(ShardsOf, AnyNumberGivesTheSameBytes) {
  const core::StoredModel model = test::random_model_of(GetParam());
  const auto text = test::random_tokens(37, 1, model.config.vocab_size);
  for (const CacheType type : {CacheType::F32, CacheType::F16, CacheType::Q8_0}) {
    Cpu one({.n_threads = 1});
    const auto expected = logits_on(one, model, text, type);
    for (size_t n = 1; n <= most_shards(model.config); ++n) {
      ShardedCpu machine(n, {.n_threads = n == 2 ? 4U : 1U}, core::memory_nodes());
      EXPECT_TRUE(same_bits(logits_on(machine, model, text, type), expected)) << n << " shards";
    }
  }
}

TEST_P(ShardsOf, ObserversSeeWholeSlots) {
  const core::StoredModel model = test::random_model_of(GetParam());
  const auto text = test::random_tokens(20, 2, model.config.vocab_size);
  const auto seen_on = [&](Machine& machine) {
    std::map<std::string, std::vector<float>> seen;
    logits_on(machine, model, text, CacheType::F32, [&](const std::string& name, std::span<const float> v, size_t) {
      seen[name].insert(seen[name].end(), v.begin(), v.end());
    });
    return seen;
  };
  Cpu one({.n_threads = 1});
  const auto expected = seen_on(one);
  ShardedCpu machine(most_shards(model.config), {.n_threads = 1}, core::memory_nodes());
  const auto got = seen_on(machine);
  ASSERT_EQ(got.size(), expected.size());
  for (const auto& [name, values] : expected) EXPECT_TRUE(same_bits(got.at(name), values)) << name;
}

TEST_P(ShardsOf, GiveEachOtherWhatTheFormulaSays) {
  const core::StoredModel model = test::random_model_of(GetParam());
  for (size_t n = 1; n <= most_shards(model.config); ++n) {
    ShardedCpu machine(n, {.n_threads = 1}, core::memory_nodes());
    Runner runner(model, machine);
    const auto sequence = runner.cache().add_sequence();
    auto rows = test::rows_of(sequence, test::random_tokens(9, 3, model.config.vocab_size), 0, false);
    rows.back().wants_logits = rows[3].wants_logits = true;
    static_cast<void>(runner.forward(rows));
    EXPECT_EQ(machine.exchanged_bytes(), exchanged_bytes(model.config, n, 9, 2)) << n << " shards";
  }
}

TEST_P(ShardsOf, TheirWeightsAreTheModelsOnce) {
  const core::StoredModel model = test::random_model_of(GetParam());
  Cpu one({.n_threads = 1});
  const uint64_t whole = Runner(model, one).load_report().weight_bytes;
  uint64_t vectors = 0;  // each shard has all of them
  for (const core::TensorSpec& spec : core::tensor_manifest(model.config)) {
    if (!spec.is_matrix()) vectors += static_cast<uint64_t>(spec.elements()) * sizeof(float);
  }
  for (size_t n = 2; n <= most_shards(model.config); ++n) {
    ShardedCpu machine(n, {.n_threads = 1}, core::memory_nodes());
    EXPECT_EQ(Runner(model, machine).load_report().weight_bytes, whole + (n - 1) * vectors);
    ShardedCpu copying(n, {.n_threads = 1, .copies_weights = true}, core::memory_nodes());
    const auto text = test::random_tokens(5, 4, model.config.vocab_size);
    EXPECT_TRUE(
        same_bits(logits_on(copying, model, text, CacheType::F32), logits_on(one, model, text, CacheType::F32)));
  }
}

TEST(Shards, HeadsAndTilesAreSharedOutEvenly) {
  size_t last = 0;
  for (size_t rank = 0; rank < 4; ++rank) {  // SmolLM2's three key/value heads: a fourth shard has none
    const Share heads = share_of(3, rank, 4);
    EXPECT_EQ(heads.first, last);
    EXPECT_LE(heads.last - heads.first, 1U);
    last = heads.last;
  }
  EXPECT_EQ(last, 3U);
  EXPECT_EQ(rows_of_rank(100, 0, 3).last, 32U);  // 7 tiles: 2, 2 and 3
  EXPECT_EQ(rows_of_rank(100, 2, 3).last, 100U);
  EXPECT_EQ(rows_of_rank(20, 0, 4).last, 0U);
}

TEST(Shards, ByDefaultEachHasANodeAThreadAndATile) {
  const core::ModelConfig config = test::small_shapes()[1].config;  // 60 wide: 4 tiles
  EXPECT_EQ(default_shards(1, 8, config), 1U);
  EXPECT_EQ(default_shards(2, 8, config), 2U);
  EXPECT_EQ(default_shards(2, 1, config), 1U);
  EXPECT_EQ(default_shards(8, 8, config), 4U);
}

TEST(Shards, MoreThanTilesAreRefused) {
  const core::StoredModel model = test::random_model(test::small_shapes()[1].config);  // 60 wide
  ShardedCpu machine(5, {.n_threads = 1}, core::memory_nodes());
  EXPECT_ERROR(Runner(model, machine), "5 shards are more than the 4 tiles of 16 rows");
  Cpu cpu({.n_threads = 1});
  EXPECT_ERROR(ShardedCpu(2, {.n_threads = 1}, core::memory_nodes())
                   .load(model, {.layers = {0, 2}, .rank = 1, .n_ranks = 3}, CacheType::F32),
               "can't be rank 1 of 3 shards");
}

TEST(Shards, OneThatFailsEndsTheMeetingOfAll) {
  ShardThreads threads(3, core::memory_nodes());
  LocalExchange exchange(3);
  for (int round = 0; round < 50; ++round) {
    std::atomic<int> n_met = 0;
    const auto work = [&](size_t i) {
      exchange.meet();
      ++n_met;
      if (i == 1) throw std::bad_alloc();
      exchange.meet();  // waits for 1, which never comes
      ADD_FAILURE() << "met";
    };
    EXPECT_THROW(threads.run(work, [&] { exchange.break_off(); }), std::bad_alloc);
    EXPECT_GE(n_met, 1);
    exchange.reset();
    threads.run([&](size_t) { exchange.meet(); });
  }
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they need address space of their own
// Some threads start, and then one does not.
TEST(Shards, AThreadThatCannotBeStartedIsAnErrorThatSaysSo) {
  const std::string text = core::test::in_little_memory(
      [] { return core::test::error_of([] { const ShardThreads threads(5000, core::memory_nodes()); }); });
  EXPECT_EQ(text.substr(0, 20), "the thread of shard ") << text;
  EXPECT_NE(text.find(" of 5000 cannot be started: "), std::string::npos) << text;
}
#endif

TEST(MemoryNodes, AreReadFromTheSystemsFiles) {
  const core::test::TempDir folder;
  const auto write = [&](const std::string& name, const std::string& text) {
    std::filesystem::create_directories((folder / name).parent_path());
    std::ofstream(folder / name) << text;
  };
  write("online", "0,2-3\n");
  write("node0/cpulist", "0-1\n");
  write("node2/cpulist", "1023\n");  // none that this process may run on
  write("node3/cpulist", "0,5000-5001,x\n");
  const auto nodes = core::memory_nodes(folder / ".");
  ASSERT_EQ(nodes.size(), 2U);
  EXPECT_EQ(nodes[0].number, 0);
  EXPECT_EQ(nodes[1].number, 3);
  EXPECT_EQ(nodes[1].cpus, std::vector<int>{0});
  const auto unknown = core::memory_nodes(folder / "nothing");
  ASSERT_EQ(unknown.size(), 1U);
  EXPECT_TRUE(unknown[0].cpus.empty());
}

}  // namespace
}  // namespace folio::infer
