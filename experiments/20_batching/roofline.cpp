#include "experiments/20_batching/roofline.h"

#include <algorithm>
#include <ctime>
#include <deque>
#include <functional>

#include "core/error.h"
#include "experiments/common/read_memory.h"
#include "infer/cache/block_manager.h"
#include "infer/forward/runner.h"
#include "infer/profile/profiled_machine.h"

namespace folio::experiments {
namespace {

constexpr int64_t kMostPasses = 60;

// Calls `work` at least 5 and at most 60 times, until the calls have taken `all_together` seconds of CPU time. Returns
// the CPU time of the fastest call.
double best_seconds(double all_together, const std::function<void()>& work) {
  double best = 1e300;
  double sum = 0.0;
  for (int i = 0; i < 5 || (i < kMostPasses && sum < all_together); ++i) {
    const std::clock_t start = std::clock();
    work();
    const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    best = std::min(best, seconds);
    sum += seconds;
  }
  return best;
}

double read_bandwidth(size_t bytes, double all_together) {
  const std::vector<uint64_t> memory(bytes / sizeof(uint64_t), 1);
  uint64_t sum = 0;
  const double seconds = best_seconds(all_together, [&] { sum += read_all(memory); });
  core::require(sum < ~uint64_t{0}, "the sum is used, so that it is computed");
  return static_cast<double>(bytes) / seconds;
}

// Returns the multiply-adds per second of products of 64 rows with 128 KiB of weights, which fit into the cache.
double product_rate(const infer::kernels::Kernels& kernels, double all_together) {
  constexpr size_t kRows = 64;
  constexpr size_t kColumns = 512;
  constexpr size_t kOut = 64;
  constexpr int kTimes = 50;
  const std::vector<float> x(kRows * kColumns, 0.5F);
  const std::vector<float> weight(kOut * kColumns, 0.25F);
  std::vector<float> out(kRows * kOut);
  const double seconds = best_seconds(all_together, [&] {
    for (int i = 0; i < kTimes; ++i) {
      kernels.matmul(x.data(), kRows, weight.data(), kColumns, 0, kOut, out.data(), kOut, false);
    }
  });
  return static_cast<double>(kTimes * kRows * kOut * kColumns) / seconds;
}

}  // namespace

Roofs measure_roofs(const infer::Cpu& cpu, size_t bytes, double seconds) {
  return {read_bandwidth(bytes, seconds), product_rate(cpu.kernels(), seconds)};
}

core::ModelConfig timed_config(bool small) {
  const int64_t heads = small ? 4 : 12;
  return {.vocab_size = 66,
          .dim = small ? 128 : 768,
          .n_layers = small ? 2 : 8,
          .n_heads = heads,
          .n_kv_heads = heads,
          .hidden_dim = small ? 352 : 2112,
          .context_length = kMostPasses,
          .tie_embeddings = true};
}

std::vector<StepTime> time_steps(infer::Cpu& cpu, const core::StoredModel& model, std::span<const int64_t> numbers,
                                 double seconds_each) {
  std::vector<StepTime> times;
  core::require(cpu.n_threads() == 1, "the processor time of {} threads is not that of a step", cpu.n_threads());
  for (const int64_t n : numbers) {
    infer::ProfiledMachine machine(cpu);
    infer::Runner runner(model, machine, {.n_sequences = n});
    std::deque<infer::ScopedSequence> sequences;
    std::vector<infer::Row> rows;
    for (int64_t s = 0; s < n; ++s) {
      rows.push_back({.token = static_cast<int32_t>(s % model.config.vocab_size),
                      .sequence = sequences.emplace_back(runner.cache()).id(),
                      .position = 0});
    }
    const double seconds = best_seconds(seconds_each, [&] {
      runner.forward(rows);
      for (infer::Row& row : rows) ++row.position;
    });
    const auto steps = static_cast<double>(machine.profile.steps);
    const infer::Work work = machine.profile.total();
    times.push_back({.n_sequences = n,
                     .seconds = seconds,
                     .weight_bytes = static_cast<double>(work.weight_bytes) / steps,
                     .multiply_adds = static_cast<double>(work.multiply_adds()) / steps});
  }
  return times;
}

}  // namespace folio::experiments
