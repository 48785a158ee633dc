// Compares training methods, each at its own learning rate, after equal steps and in equal time. A study's struct
// Method has the members name, lr, search, step_seconds, steps_in_time, judged and judged_in_time. The others are
// compared with the first method.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "experiments/common/comparison.h"
#include "experiments/common/interval_chart.h"
#include "experiments/common/report.h"
#include "experiments/common/training.h"

namespace folio::experiments {

/// A model in training. The other members are the arguments of train_model().
struct Running {
  nn::Llama model;
  train::TrainConfig config;
  Update update;
  Objective objective{};

  /// Trains the model and returns its validation loss, NaN if training diverged.
  [[nodiscard]] double loss(const Shakespeare& text) {
    return train_model(model, text, config, update, objective).validation_loss;
  }
};

/// Returns `setting` with this learning rate and seed, for `steps` steps, evaluated only at the end.
[[nodiscard]] train::TrainConfig config_of_run(train::TrainConfig setting, double lr, uint64_t seed, int64_t steps);

/// Runs `rounds` rounds, in each of which every model trains for config.steps steps at its rate, all on the same
/// batches. Returns each model's CPU time per step in seconds, the median over rounds.
[[nodiscard]] std::vector<double> seconds_per_step(const Shakespeare& text, std::vector<Running>& models, int rounds);

/// Searches each method's best learning rate on tuning_seeds(), starting around `lr`, and sets `search` and `lr`. Then
/// measures its step_seconds in rounds of `steps_per_round`, sets steps_in_time to the number of steps that take as
/// long as the first method's run, and trains from each of `seeds`: `judged` and `judged_in_time` are losses by seed.
/// start(method, lr, seed, steps) returns a Running with the settings of config_of_run().
template <typename Method>
void compare(const Report& report, const Shakespeare& text, const train::TrainConfig& setting,
             std::vector<Method>& methods, const std::vector<uint64_t>& seeds, int64_t steps_per_round,
             const auto& start) {
  std::vector<double> middles;
  for (const Method& method : methods) middles.push_back(method.lr);
  const auto found = search_rates(middles, tuning_seeds(report), [&](size_t which, double lr, uint64_t seed) {
    return start(methods[which], lr, seed, setting.steps).loss(text);
  });
  std::vector<Running> models;
  for (size_t i = 0; i < methods.size(); ++i) {
    methods[i].search = found[i];
    methods[i].lr = found[i].best_rate();
    report.say(fmt::format("  {}: {}", methods[i].name, shown(found[i])));
    models.push_back(start(methods[i], methods[i].lr, report.seed(), steps_per_round));
  }
  const auto seconds = seconds_per_step(text, models, report.short_form() ? 1 : 9);
  for (size_t i = 0; i < methods.size(); ++i) {
    methods[i].step_seconds = seconds[i];
    methods[i].steps_in_time =
        std::max<int64_t>(1, std::lround(static_cast<double>(setting.steps) * seconds[0] / seconds[i]));
    methods[i].judged.resize(seeds.size());
    methods[i].judged_in_time.resize(seeds.size());
  }
  run_jobs(2 * methods.size() * seeds.size(), [&](size_t i) {
    const bool in_time = i % 2 == 1;
    Method& method = methods[i / 2 / seeds.size()];
    const size_t s = i / 2 % seeds.size();
    if (in_time && &method == &methods[0]) return;
    (in_time ? method.judged_in_time : method.judged)[s] =
        start(method, method.lr, seeds[s], in_time ? method.steps_in_time : setting.steps).loss(text);
  });
  methods[0].judged_in_time = methods[0].judged;
}

/// Returns the cells of a method in a table of results: the loss after equal steps, its difference from the first
/// method's, milliseconds per step, steps_in_time, the loss in equal time, and its difference.
template <typename Method>
[[nodiscard]] std::vector<Report::Json> result_cells(const std::vector<Method>& methods, const Method& method) {
  const auto against = [&](const std::vector<double>& losses) {
    return &method == &methods[0] ? Report::Json() : Report::Json(shown(paired_interval(losses, methods[0].judged)));
  };
  return {mean_of(method.judged), against(method.judged),         1e3 * method.step_seconds,
          method.steps_in_time,   mean_of(method.judged_in_time), against(method.judged_in_time)};
}

/// Returns a chart of the differences from the first method, whose losses the subtitle calls `whose`.
template <typename Method>
[[nodiscard]] IntervalChart chart_of(const std::vector<Method>& methods, const std::string& title,
                                     const std::string& whose) {
  IntervalChart chart{.title = title,
                      .subtitle = "loss minus " + whose + ", paired by seed, with 95 % intervals",
                      .x_label = "nats per character",
                      .rows = {},
                      .references = {{methods[0].name, 0.0}}};
  for (size_t i = 1; i < methods.size(); ++i) {
    const Method& m = methods[i];
    chart.rows.push_back({m.name + ", equal steps", paired_interval(m.judged, methods[0].judged)});
    chart.rows.push_back({m.name + ", equal time", paired_interval(m.judged_in_time, methods[0].judged)});
  }
  return chart;
}

}  // namespace folio::experiments
