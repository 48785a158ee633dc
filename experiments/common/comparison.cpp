#include "experiments/common/comparison.h"

#include <fmt/format.h>
#include <torch/utils.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <future>
#include <mutex>
#include <thread>

namespace folio::experiments {
namespace {

int64_t count_parameters(const nn::Llama& model) {
  int64_t count = 0;
  for (const torch::Tensor& p : model->parameters()) count += p.numel();
  return count;
}

}  // namespace

void run_jobs(size_t count, const std::function<void(size_t)>& job) {
  std::atomic<size_t> next{0};
  std::vector<std::future<void>> workers(std::clamp<size_t>(std::thread::hardware_concurrency(), 1, count));
  for (auto& worker : workers) {
    worker = std::async(std::launch::async, [&] {
      try {
        for (size_t i = next++; i < count; i = next++) job(i);
      } catch (...) {
        next = count;  // the others stop too
        throw;
      }
    });
  }
  for (auto& worker : workers) worker.wait();
  for (auto& worker : workers) worker.get();
}

std::vector<Outcome> train_variants(const Report& report, const Shakespeare& text, const train::TrainConfig& setting,
                                    const std::vector<Variant>& variants, const std::vector<uint64_t>& seeds,
                                    const Measure& measure) {
  torch::set_num_threads(1);
  std::vector<Outcome> outcomes;
  for (const Variant& variant : variants) {
    outcomes.push_back({variant.name, 0, std::vector<double>(seeds.size()), std::vector<double>(seeds.size())});
  }
  std::mutex one_at_a_time;  // LibTorch's random generator is one for all threads
  run_jobs(variants.size() * seeds.size(), [&](size_t i) {
    const Variant& variant = variants[i / seeds.size()];
    Outcome& outcome = outcomes[i / seeds.size()];
    const size_t s = i % seeds.size();
    train::TrainConfig config = setting;
    config.model = variant.model;
    config.seed = seeds[s];

    std::unique_lock lock(one_at_a_time);
    nn::Llama model =
        seeded_llama(variant.model, seeds[s], variant.blocks ? variant.blocks(variant.model) : nn::BlockFactory{});
    if (variant.prepare) variant.prepare(model);
    outcome.parameters = count_parameters(model);
    lock.unlock();
    const double loss = train_model(model, text, config).validation_loss;
    const double measured = measure ? measure(model) : loss;
    lock.lock();
    outcome.losses[s] = loss;
    outcome.measured[s] = measured;
    report.say(fmt::format("  {}, seed {}: {:.3f}", variant.name, seeds[s], loss));
  });
  return outcomes;
}

std::vector<uint64_t> paired_seeds(const Report& report) {
  std::vector<uint64_t> seeds(report.short_form() ? 2 : 8);
  for (size_t i = 0; i < seeds.size(); ++i) seeds[i] = report.seed() + i;
  return seeds;
}

std::string shown(const Interval& interval) {
  return fmt::format("{:+.3f} [{:+.3f}, {:+.3f}]", interval.mean, interval.low, interval.high);
}

}  // namespace folio::experiments
