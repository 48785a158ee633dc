#include "experiments/20_batching/roofline.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>
#include <functional>

#include "core/error.h"
#include "core/random.h"
#include "experiments/common/counting_machine.h"
#include "infer/cache/scoped_sequence.h"
#include "infer/forward/runner.h"

namespace folio::experiments {
namespace {

double best_seconds(int repetitions, const std::function<void()>& work) {
  double best = 1e300;
  for (int i = 0; i < repetitions; ++i) {
    const auto start = std::chrono::steady_clock::now();
    work();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

double read_bandwidth(core::ThreadPool& pool, size_t bytes) {
  const std::vector<uint64_t> memory(bytes / sizeof(uint64_t), 1);
  std::vector<uint64_t> sums(pool.size() * 8);  // a line for each thread
  const size_t share = (memory.size() + pool.size() - 1) / pool.size();
  const double seconds = best_seconds(5, [&] {
    pool.parallel_for(memory.size(), share, [&](size_t begin, size_t end) {
      uint64_t lanes[32] = {};
      for (size_t i = begin; i + 32 <= end; i += 32) {
        for (size_t l = 0; l < 32; ++l) lanes[l] ^= memory[i + l];
      }
      for (const uint64_t lane : lanes) sums[begin / share * 8] += lane;
    });
  });
  core::require(sums[0] < ~uint64_t{0}, "the sum is used, so that it is computed");
  return static_cast<double>(bytes) / seconds;
}

// A product of 64 rows with 128 KiB of weights for each thread, which stay in its cache.
double product_rate(infer::Cpu& cpu) {
  constexpr size_t kRows = 64;
  constexpr size_t kColumns = 512;
  constexpr size_t kOut = 64;  // for each thread
  constexpr int kTimes = 20;
  const size_t n_out = kOut * cpu.n_threads();
  const std::vector<float> x(kRows * kColumns, 0.5F);
  const std::vector<float> weight(n_out * kColumns, 0.25F);
  std::vector<float> out(kRows * n_out);
  const double seconds = best_seconds(10, [&] {
    cpu.pool().parallel_for(n_out, kOut, [&](size_t begin, size_t end) {
      for (int i = 0; i < kTimes; ++i) {
        cpu.kernels().matmul(x.data(), kRows, weight.data(), kColumns, begin, end, out.data(), n_out, false);
      }
    });
  });
  return static_cast<double>(kTimes * kRows * n_out * kColumns) / seconds;
}

}  // namespace

Roofs measure_roofs(infer::Cpu& cpu, size_t bytes) { return {read_bandwidth(cpu.pool(), bytes), product_rate(cpu)}; }

core::StoredModel random_model(bool small) {
  core::StoredModel model{};
  model.path = "random weights";
  model.config = {.vocab_size = 66,
                  .dim = small ? 128 : 768,
                  .n_layers = small ? 2 : 8,
                  .n_heads = 12,
                  .n_kv_heads = 12,
                  .hidden_dim = small ? 352 : 2112,
                  .context_length = 64,
                  .tie_embeddings = true};
  if (small) model.config.n_heads = model.config.n_kv_heads = 4;
  auto weights = std::make_shared<core::Weights>();
  weights->config = model.config;
  for (const core::TensorSpec& spec : core::tensor_manifest(model.config)) {
    const double scale = std::sqrt(3.0 / static_cast<double>(spec.shape.back()));
    std::vector<float>& values = weights->tensors.emplace_back(static_cast<size_t>(spec.elements()), 1.0F);
    for (size_t i = 0; spec.shape.size() > 1 && i < values.size(); ++i) {
      values[i] = static_cast<float>(scale * (2.0 * core::random_uniform(weights->tensors.size(), i) - 1.0));
    }
  }
  model.tensors = weights->views();
  model.storage = {std::move(weights)};
  return model;
}

std::vector<StepTime> time_steps(infer::Cpu& cpu, const core::StoredModel& model, std::span<const int64_t> numbers,
                                 int repetitions) {
  std::vector<StepTime> times;
  for (const int64_t n : numbers) {
    CountingMachine machine(cpu);
    infer::Runner runner(model, machine, {.n_sequences = n});
    std::deque<infer::ScopedSequence> sequences;
    std::vector<infer::Row> rows;
    for (int64_t s = 0; s < n; ++s) {
      rows.push_back({.token = static_cast<int32_t>(s % model.config.vocab_size),
                      .sequence = sequences.emplace_back(runner.cache()).id(),
                      .position = 0});
    }
    const double seconds = best_seconds(repetitions, [&] {
      runner.forward(rows);
      for (infer::Row& row : rows) ++row.position;
    });
    const auto steps = static_cast<double>(machine.work.steps);
    times.push_back(
        {.n_sequences = n,
         .seconds = seconds,
         .weight_bytes = static_cast<double>(machine.work.weight_bytes) / steps,
         .multiply_adds =
             static_cast<double>(machine.work.matrix_multiply_adds + machine.work.attention_multiply_adds) / steps});
  }
  return times;
}

}  // namespace folio::experiments
