// Tests shards, the ranks of one process (infer/ranks/local.h): how many there are by default, which NUMA nodes they
// use, and errors. properties_test.cpp tests the properties of all kinds of ranks.
#include "infer/ranks/local.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <fstream>
#include <new>
#include <string>

#include "tests/core/support.h"
#include "tests/infer/engine/texts.h"
#include "tests/infer/ranks/kinds.h"

namespace folio::infer {

// Returns two kinds of shards: those that use the weights in the mapped file, and those that copy them to their own
// memory.
std::vector<test::RankKind> test::rank_kinds() {
  const auto threads = [](bool copies) {
    return [copies](size_t n, const core::StoredModel& model, const CacheOptions& options,
                    const std::function<void(Runner&)>& work) {
      ShardedCpu machine(n, {.n_threads = n == 2 ? 4U : 1U, .copies_weights = copies}, core::memory_nodes());
      Runner runner(model, machine, options);
      work(runner);
      return machine.exchanged_bytes();
    };
  };
  return {{"threads", {CacheType::F32, CacheType::F16, CacheType::Q8_0}, 1, false, threads(false)},
          {"copies", {CacheType::F32}, 2, false, threads(true)}};
}

namespace {

TEST(Shards, DefaultsToANodeThreadAndTilePerShard) {
  const core::ModelConfig config = test::small_shapes()[1].config;  // a width of 60, which is 4 tiles
  EXPECT_EQ(default_shards(1, 8, config), 1U);
  EXPECT_EQ(default_shards(2, 8, config), 2U);
  EXPECT_EQ(default_shards(2, 1, config), 1U);
  EXPECT_EQ(default_shards(8, 8, config), 4U);
}

TEST(Shards, RejectsMoreShardsThanTiles) {
  const core::StoredModel model = test::random_model(test::small_shapes()[1].config);  // a width of 60: 4 tiles
  ShardedCpu machine(5, {.n_threads = 1}, core::memory_nodes());
  EXPECT_ERROR(Runner(model, machine), "width of 60 has 4 tiles of 16 rows, too few for 5 shards");
  Cpu cpu({.n_threads = 1});
  EXPECT_ERROR(ShardedCpu(2, {.n_threads = 1}, core::memory_nodes())
                   .load(model, {.layers = {0, 2}, .rank = 1, .n_ranks = 3}, CacheType::F32),
               "cannot be rank 1 of 3");
}

// One of two shards has no rows of Wk and Wv, but must round the adapter of their input like the other one.
TEST(Shards, AdaptersMatchOneCpuIfAShardHasNoKeys) {
  const core::ModelConfig config = test::config_of(core::Family::Llama, 37, 64, 2, 4, 1, 96, 96);
  const core::StoredModel model = test::random_model_of({"one_tile_of_keys", config, core::DType::Q8_0});
  const auto logits_of = [&](Machine& machine) {
    Runner runner(model, machine);
    const int32_t adapter = runner.load_adapter(test::random_adapter(config, 5, 4));
    return test::run(runner, test::rows_of(runner.cache().add_sequence(adapter), test::random_tokens(9, 2, 37)));
  };
  Cpu one({.n_threads = 1});
  ShardedCpu two(2, {.n_threads = 1}, core::memory_nodes());
  EXPECT_TRUE(test::same_bits(logits_of(two), logits_of(one)));
}

TEST(Shards, FailedShardEndsTheBarrierForAll) {
  ShardThreads threads(3, core::memory_nodes());
  LocalGroup group(3);
  const auto meet = [&](size_t i) {
    const auto ignore = [](size_t, std::span<const std::byte>) {};
    group.member(i)->all_gather({}, 0, ignore, std::chrono::seconds(1));
  };
  for (int round = 0; round < 50; ++round) {
    std::atomic<int> n_met = 0;
    const auto work = [&](size_t i) {
      meet(i);
      ++n_met;
      if (i == 1) throw std::bad_alloc();
      meet(i);  // waits for shard 1, which never arrives
      ADD_FAILURE() << "met";
    };
    EXPECT_THROW(threads.run(work, [&] { group.break_off(); }), std::bad_alloc);
    EXPECT_GE(n_met, 1);
    group.reset();
    threads.run(meet);
  }
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // sanitizers exceed the memory limit
// If there is memory for only some of 5000 threads, the error names the shard, and the threads already started end.
TEST(Shards, AThreadThatCannotBeStartedIsAnErrorThatSaysSo) {
  const std::string text = core::test::in_little_memory(
      [] { return core::test::error_of([] { const ShardThreads threads(5000, core::memory_nodes()); }); });
  EXPECT_EQ(text.substr(0, 33), "cannot start the thread of shard ") << text;
  EXPECT_NE(text.find(" of 5000: "), std::string::npos) << text;
}
#endif

// Two ranks of 60 and 40 bytes of weights on each host, which has 200 bytes, and one rank on a host of 100 bytes.
TEST(RankReport, BlocksFitBesideTheWeightsOfAllRanksOfAHost) {
  const RankReport large{.load = {.weight_bytes = 60}, .fit = {.block_bytes = 10, .n_blocks = 14}};
  const RankReport small{.load = {.weight_bytes = 40}, .fit = {.block_bytes = 10, .n_blocks = 16}};
  const CacheFit one_host = sum_of(std::array{large, small}, 2).fit;
  EXPECT_EQ(one_host.block_bytes, 20U);
  EXPECT_EQ(one_host.n_blocks, 5);
  // A rank without key/value heads has empty blocks. 200 - 60 - 40 - 20 bytes are left for blocks of 20 bytes.
  const RankReport headless{.load = {.weight_bytes = 20}, .fit = {.block_bytes = 0, .n_blocks = 180}};
  EXPECT_EQ(sum_of(std::array{large, small, headless}, 3).fit.n_blocks, 4);
  const RankReport other{.load = {.weight_bytes = 40}, .fit = {.block_bytes = 20, .n_blocks = 3}};
  const RankReport all = sum_of(std::array{large, small, other}, 2);
  EXPECT_EQ(all.load.weight_bytes, 140U);
  EXPECT_EQ(all.fit.n_blocks, 3);
}

TEST(MemoryNodes, ReadsNodesFromSysfs) {
  const core::test::TempDir folder;
  const auto write = [&](const std::string& name, const std::string& text) {
    std::filesystem::create_directories((folder / name).parent_path());
    std::ofstream(folder / name) << text;
  };
  write("online", "0,2-3\n");
  write("node0/cpulist", "0-1\n");
  write("node2/cpulist", "1023\n");  // not a processor that this process may use
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
