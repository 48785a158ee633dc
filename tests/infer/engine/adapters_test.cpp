// Tests adapters (LoRA) in the engine: sequences with equal tokens but different adapters share no KV blocks, and
// results are close to those of a model with the adapter merged.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <new>
#include <vector>

#include "infer/cpu/cpu.h"
#include "infer/forward/pass_through.h"
#include "tests/infer/engine/texts.h"

namespace folio::infer {
namespace {

using test::EngineOn;
using test::MachineKind;
using test::random_adapter;
using test::RunnerOn;
using test::same_bits;

core::Weights merged(core::Weights weights, const core::Adapter& adapter) {
  for (const core::Adapter::Part& part : adapter.parts) {
    std::vector<float>& w = test::values_of(weights, part.role, part.layer);
    const size_t k = part.a.size() / part.rank;
    for (size_t i = 0; i < w.size(); ++i) {
      double sum = 0.0;
      for (size_t j = 0; j < part.rank; ++j) {
        sum += static_cast<double>(part.b[i / k * part.rank + j]) * static_cast<double>(part.a[j * k + i % k]);
      }
      w[i] += static_cast<float>(part.scale * sum);
    }
  }
  return weights;
}

class Adapters : public ::testing::TestWithParam<MachineKind> {
 protected:
  static core::ModelConfig config() {
    core::ModelConfig c = GetParam().model;  // a vocabulary of 37, grouped queries, odd widths
    c.context_length = 200;
    return c;
  }
  static Request greedy(std::vector<int32_t> prompt, int32_t adapter) {
    return {.prompt = std::move(prompt),
            .options = {.max_tokens = 20, .sampler = {.temperature = 0.0F}, .adapter = adapter}};
  }

  core::Weights weights_ = test::random_weights(config(), 7);
  core::StoredModel model_ = test::model_from(weights_);
  std::vector<core::Adapter> adapters_ = {random_adapter(config(), 1, 3), random_adapter(config(), 2, 16),
                                          random_adapter(config(), 3, 37)};
};

INSTANTIATE_TEST_SUITE_P(Machines, Adapters, ::testing::ValuesIn(test::machine_kinds()), test::kind_name);

TEST_P(Adapters, AdaptedModelMatchesTheMergedModel) {
  const auto text = test::random_tokens(40, 1, 37);
  const auto plain = test::logits_on(GetParam(), model_, text);
  const auto expect = [&](const core::Adapter& adapter, const core::Weights& weights) {
    RunnerOn adapted(GetParam(), model_);
    const auto sequence = adapted.cache().add_sequence(adapted.load_adapter(adapter));
    const auto got = test::run(adapted, test::rows_of(sequence, text));
    const auto expected = test::logits_on(GetParam(), test::model_from(weights), text);
    double moved = 0.0;
    double apart = 0.0;
    for (size_t i = 0; i < got.size(); ++i) {
      moved = std::max(moved, std::abs(static_cast<double>(got[i] - plain[i])));
      apart = std::max(apart, std::abs(static_cast<double>(got[i] - expected[i])));
    }
    EXPECT_GT(moved, 0.5);
    // The KV cache may round values that differ only in their last bits to values that differ by 2^-11 (F16), or by 1 /
    // 127 of the largest value (Q8_0).
    const double most[] = {2e-4, 1e-2, 1e-2 * 2048 / 127};  // one for each CacheType
    EXPECT_LT(apart, moved * most[static_cast<size_t>(GetParam().cache_type)]);
  };
  for (const core::Adapter& adapter : adapters_) {
    SCOPED_TRACE(fmt::format("rank {}", adapter.parts.front().rank));
    expect(adapter, merged(weights_, adapter));
  }
  SCOPED_TRACE("sum of two adapters");
  expect(core::sum_of(std::array{adapters_[0], adapters_[2]}), merged(merged(weights_, adapters_[0]), adapters_[2]));
}

TEST_P(Adapters, AdaptersWorkWithEveryWeightType) {
  for (const test::Shape& shape : test::typed_shapes()) {
    const core::StoredModel model = test::random_model_of(shape);
    const std::vector<core::Adapter> adapters = {random_adapter(shape.config, 4, 5),
                                                 random_adapter(shape.config, 5, 2)};
    const auto text = test::random_tokens(6, 6, shape.config.vocab_size);
    const auto logits_of = [&](const std::vector<int>& which,
                               const CpuOptions& options) {  // runs one sequence after another
      RunnerOn runner(GetParam(), model, options, {.n_sequences = 2});
      std::vector<int32_t> numbers;
      for (const core::Adapter& adapter : adapters) numbers.push_back(runner.load_adapter(adapter));
      std::vector<Row> rows;
      for (const int w : which) {
        const int32_t number = w < 0 ? kNoAdapter : numbers[static_cast<size_t>(w)];
        const auto some = test::rows_of(runner.cache().add_sequence(number), text);
        rows.insert(rows.end(), some.begin(), some.end());
      }
      return test::run(runner, rows);
    };
    const auto first = logits_of({0}, {.n_threads = 1});
    const auto second = logits_of({1}, {.n_threads = 1, .kernels = &kernels::reference_kernels()});
    const auto both = logits_of({0, 1}, {.n_threads = 2});
    const auto half = static_cast<std::ptrdiff_t>(first.size());
    EXPECT_TRUE(same_bits({both.begin(), both.begin() + half}, first)) << shape.name;
    EXPECT_TRUE(same_bits({both.begin() + half, both.end()}, second)) << shape.name;
    EXPECT_FALSE(same_bits(first, second)) << shape.name;
    EXPECT_FALSE(same_bits(first, logits_of({-1}, {.n_threads = 1}))) << shape.name;
  }
}

TEST_P(Adapters, AdaptersDoNotSharePrefixes) {
  const auto prompt = test::random_tokens(70, 4, 37);
  std::vector<std::vector<int32_t>> alone;
  for (size_t which = 0; which <= adapters_.size(); ++which) {
    EngineOn engine(GetParam(), model_);
    const int32_t adapter = which == 0 ? kNoAdapter : engine.load_adapter(adapters_[which - 1]);
    alone.push_back(test::results_of(engine, greedy(prompt, adapter)).front().tokens);
  }
  EXPECT_NE(alone[0], alone[1]);
  EngineOn engine(GetParam(), model_, {.n_threads = 1}, {.max_positions = 3000});
  std::vector<int32_t> numbers = {kNoAdapter};
  for (const core::Adapter& adapter : adapters_) numbers.push_back(engine.load_adapter(adapter));
  for (int round = 0; round < 2; ++round) {  // in the second round, all prompts are in the prefix cache
    std::vector<RequestId> ids;
    for (const int32_t number : numbers) ids.push_back(engine.add(greedy(prompt, number)));
    while (engine.step()) continue;
    for (size_t i = 0; i < ids.size(); ++i) {
      const GenerateResult result = engine.take(ids[i]);
      EXPECT_EQ(result.tokens, alone[i]) << "adapter " << i;
      EXPECT_EQ(result.n_cached, round == 0 ? 0U : 64U);
    }
  }
}

TEST_P(Adapters, AdaptersInUseAreNotUnloaded) {
  EngineOn engine(GetParam(), model_, {.n_threads = 1}, {.max_positions = 3000});
  const int32_t first = engine.load_adapter(adapters_[0]);
  const int32_t second = engine.load_adapter(adapters_[1]);
  const auto prompt = test::random_tokens(40, 5, 37);
  const RequestId id = engine.add(greedy(prompt, second));
  engine.step();
  EXPECT_ERROR(engine.unload_adapter(second), "adapter 1 is in use by 1 request that has not ended");
  engine.unload_adapter(first);
  EXPECT_ERROR(engine.unload_adapter(first), "adapter 0 is not loaded");
  EXPECT_ERROR(engine.add(greedy(prompt, first)), "adapter 0 is not loaded");
  while (engine.step()) continue;
  const auto expected = engine.take(id).tokens;
  engine.unload_adapter(second);
  // A new adapter reuses neither the id of an unloaded adapter nor the KV blocks computed with it.
  const int32_t third = engine.load_adapter(adapters_[0]);
  EXPECT_EQ(third, 2);
  const GenerateResult result = test::results_of(engine, greedy(prompt, third)).front();
  EXPECT_EQ(result.n_cached, 0U);
  EXPECT_NE(result.tokens, expected);
  // A step in flight may still use the adapter of a cancelled request.
  const RequestId other = engine.add(greedy(prompt, kNoAdapter));
  const RequestId cancelled = engine.add(greedy(prompt, third));
  engine.step();
  engine.cancel(cancelled);
  engine.unload_adapter(third);
  while (engine.step()) continue;
  EXPECT_EQ(engine.take(other).tokens.size(), 20U);
}

// A stage that counts the loaded adapters, or throws as if it had no memory for them.
class CountingStage final : public PassThroughStage {
 public:
  CountingStage(std::unique_ptr<Stage> stage, int& n_adapters, bool has_memory)
      : PassThroughStage(std::move(stage)), n_adapters_(n_adapters), has_memory_(has_memory) {}
  void load_adapter(int32_t number, const core::Adapter& adapter) override {
    if (!has_memory_) throw std::bad_alloc();
    inner().load_adapter(number, adapter);
    ++n_adapters_;
  }
  void unload_adapter(int32_t number) override {
    inner().unload_adapter(number);
    --n_adapters_;
  }

 private:
  int& n_adapters_;
  bool has_memory_;
};

TEST(StageAdapters, FailedLoadsLeaveNoMachineChanged) {
  const core::ModelConfig config = test::small_shapes()[1].config;  // a model of two layers, one for each stage
  const core::StoredModel model = test::random_model(config);
  const auto counting = [](int& n_adapters, bool has_memory) {
    return test::WrappedMachine(std::make_unique<Cpu>(CpuOptions{.n_threads = 1}),
                                [&n_adapters, has_memory](std::unique_ptr<Stage> stage) {
                                  return std::make_unique<CountingStage>(std::move(stage), n_adapters, has_memory);
                                });
  };
  int n_on_first = 0;
  int n_on_second = 0;
  test::WrappedMachine first = counting(n_on_first, true);
  test::WrappedMachine second = counting(n_on_second, false);
  Runner runner(model, std::array{Placement{first, {0, 1}}, Placement{second, {1, 2}}}, {});
  EXPECT_THROW(static_cast<void>(runner.load_adapter(random_adapter(config, 1, 3))), std::bad_alloc);
  EXPECT_EQ(n_on_first, 0);
  EXPECT_ERROR(runner.require_adapter(0), "adapter 0 is not loaded");
}

}  // namespace
}  // namespace folio::infer
