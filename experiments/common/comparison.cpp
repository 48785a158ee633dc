#include "experiments/common/comparison.h"

#include <fmt/format.h>
#include <torch/utils.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <future>
#include <map>
#include <mutex>
#include <span>
#include <thread>

namespace folio::experiments {
namespace {

int64_t count_parameters(const nn::Llama& model) {
  int64_t count = 0;
  for (const torch::Tensor& p : model->parameters()) count += p.numel();
  return count;
}

struct Trained {
  int64_t parameters = 0;
  double loss = 0.0, measured = 0.0;
};

// Trains a variant from one seed on a single thread.
Trained train_variant(const Shakespeare& text, const train::TrainConfig& setting, const Variant& variant, double lr,
                      uint64_t seed, const Measure& measure) {
  train::TrainConfig config = with_rate(setting, lr);
  config.model = variant.model;
  config.seed = seed;
  nn::Llama model = seeded_llama(variant.model, seed, variant.blocks, variant.prepare);
  Trained trained{.parameters = count_parameters(model), .loss = train_model(model, text, config).validation_loss};
  trained.measured = measure && !std::isnan(trained.loss) ? measure(model) : trained.loss;
  return trained;
}

// Returns the learning rate at an index of the search grid: 0.001, 0.003, 0.01, … for -6, -5, -4, …
double rate_of(int place) {
  const int tens = static_cast<int>(std::floor(place / 2.0));
  return std::stod(fmt::format("{}e{}", place % 2 == 0 ? 1 : 3, tens));
}

constexpr int kLowestPlace = -10, kHighestPlace = 2;

int place_of(double rate) { return static_cast<int>(std::lround(2.0 * std::log10(rate))); }

}  // namespace

void run_jobs(size_t count, const std::function<void(size_t)>& job) {
  std::atomic<size_t> next{0};
  std::vector<std::future<void>> workers(std::min<size_t>(std::max(1U, std::thread::hardware_concurrency()), count));
  for (auto& worker : workers) {
    worker = std::async(std::launch::async, [&] {
      try {
        for (size_t i = next++; i < count; i = next++) job(i);
      } catch (...) {
        next = count;  // stops the other threads
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
  std::mutex one_at_a_time;
  run_jobs(variants.size() * seeds.size(), [&](size_t i) {
    const Variant& variant = variants[i / seeds.size()];
    Outcome& outcome = outcomes[i / seeds.size()];
    const size_t s = i % seeds.size();
    const double lr = variant.lr > 0.0 ? variant.lr : setting.lr;
    const Trained trained = train_variant(text, setting, variant, lr, seeds[s], measure);
    const std::lock_guard lock(one_at_a_time);
    outcome.parameters = trained.parameters;
    outcome.losses[s] = trained.loss;
    outcome.measured[s] = trained.measured;
    report.say(fmt::format("  {}, seed {}: {:.3f}", variant.name, seeds[s], trained.loss));
  });
  return outcomes;
}

std::vector<uint64_t> paired_seeds(const Report& report, size_t n) {
  std::vector<uint64_t> seeds(report.short_form() ? 2 : n);
  for (size_t i = 0; i < seeds.size(); ++i) seeds[i] = report.seed() + i;
  return seeds;
}

std::vector<uint64_t> tuning_seeds(const Report& report) {
  if (report.short_form()) return {};
  return {report.seed() + 100, report.seed() + 101};
}

std::vector<RateSearch> search_rates(const std::vector<double>& middles, const std::vector<uint64_t>& seeds,
                                     const std::function<double(size_t, double, uint64_t)>& loss) {
  if (seeds.empty()) {
    std::vector<RateSearch> untried;
    for (const double middle : middles) untried.push_back({.rates = {middle}, .losses = {NAN}});
    return untried;
  }
  struct Try {
    size_t which;
    int place;
  };
  std::vector<Try> tries;
  for (size_t i = 0; i < middles.size(); ++i) {
    for (const int side : {-1, 0, 1}) tries.push_back({i, place_of(middles[i]) + side});
  }
  std::vector<std::map<int, double>> means(middles.size());
  while (!tries.empty()) {
    std::vector<double> losses(tries.size() * seeds.size());
    run_jobs(losses.size(), [&](size_t i) {
      const Try& t = tries[i / seeds.size()];
      losses[i] = loss(t.which, rate_of(t.place), seeds[i % seeds.size()]);
    });
    for (size_t t = 0; t < tries.size(); ++t) {
      const double mean = mean_of(std::span(losses).subspan(t * seeds.size(), seeds.size()));
      means[tries[t].which][tries[t].place] = std::isnan(mean) ? INFINITY : mean;
    }
    tries.clear();
    for (size_t i = 0; i < middles.size(); ++i) {
      const int best = std::ranges::min_element(means[i], {}, &std::pair<const int, double>::second)->first;
      if (best == means[i].begin()->first && best > kLowestPlace) tries.push_back({i, best - 1});
      if (best == means[i].rbegin()->first && best < kHighestPlace) tries.push_back({i, best + 1});
    }
  }
  std::vector<RateSearch> found(middles.size());
  for (size_t i = 0; i < middles.size(); ++i) {
    for (const auto& [place, mean] : means[i]) {
      found[i].rates.push_back(rate_of(place));
      found[i].losses.push_back(mean);
    }
    found[i].best = static_cast<size_t>(std::ranges::min_element(found[i].losses) - found[i].losses.begin());
  }
  return found;
}

train::TrainConfig with_rate(train::TrainConfig setting, double lr) {
  setting.min_lr *= lr / setting.lr;
  setting.lr = lr;
  return setting;
}

std::vector<RateSearch> tune_variants(const Report& report, const Shakespeare& text, const train::TrainConfig& setting,
                                      std::vector<Variant>& variants, const Measure& measure) {
  torch::set_num_threads(1);
  const auto loss = [&](size_t which, double rate, uint64_t seed) {
    const Variant& variant = variants[which];
    const double measured = train_variant(text, setting, variant, rate, seed, measure).measured;
    report.say(fmt::format("  {} at {:g}, seed {}: {:.3f}", variant.name, rate, seed, measured));
    return measured;
  };
  const auto found = search_rates(std::vector(variants.size(), setting.lr), tuning_seeds(report), loss);
  for (size_t i = 0; i < variants.size(); ++i) variants[i].lr = found[i].best_rate();
  return found;
}

std::string shown(const RateSearch& search) {
  std::string text;
  for (size_t i = 0; i < search.rates.size(); ++i) {
    const double mean = search.losses[i];
    const std::string loss = std::isnan(mean)   ? "not tried"
                             : std::isinf(mean) ? "diverged"
                                                : fmt::format("{:.3f}", mean);
    text += fmt::format("{}{:g}: {}", i == 0 ? "" : ", ", search.rates[i], loss);
  }
  return text;
}

std::string count_of_intervals(size_t count) {
  return fmt::format("{} intervals, of which {:.1f} are expected to miss their true value", count,
                     0.05 * static_cast<double>(count));
}

}  // namespace folio::experiments
