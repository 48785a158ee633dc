#include "experiments/13_leak/full.h"

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <cmath>
#include <filesystem>

#include "core/paths.h"
#include "experiments/13_leak/leaks.h"
#include "experiments/13_leak/training.h"
#include "experiments/common/comparison.h"
#include "experiments/common/training.h"

namespace folio::experiments::tutorial {
namespace {

constexpr double kMinutes = 9.0;
constexpr int64_t kWindows = 2048;  // number of windows that are tested for leaks

constexpr std::array<int64_t, 3> kStages{5000, 15'000, 25'000};  // total steps after each of the notebook's three runs

struct Model {
  std::string name;
  NormOver norm;
};

// Returns the file for a model's training state at a stage. Creates it as a copy of the previous stage's, if missing.
std::filesystem::path file_of(const Model& model, size_t stage, uint64_t seed) {
  const auto named = [&](size_t i) {
    return core::runs_directory() / "experiments" / "13_leak" /
           fmt::format("full_{}_{}_{}.pt", model.norm == NormOver::Window ? "window" : "position", kStages[i], seed);
  };
  std::filesystem::create_directories(named(stage).parent_path());
  if (stage > 0 && !std::filesystem::exists(named(stage))) std::filesystem::copy_file(named(stage - 1), named(stage));
  return named(stage);
}

// Formats "1.553 ± 0.041": the mean ± 1.96 standard deviations, which contains 95 % of normally distributed values.
std::string range_of(const std::vector<double>& values) {
  double square = 0.0;
  for (const double v : values) square += (v - mean_of(values)) * (v - mean_of(values));
  const double spread = std::sqrt(square / static_cast<double>(values.size() - 1));
  return fmt::format("{:.3f} ± {:.3f}", mean_of(values), 1.96 * spread);
}

train::LineChart::Series series(const std::string& name, const std::vector<double>& losses) {
  train::LineChart::Series result{.name = name, .points = {}};
  for (size_t t = 0; t < losses.size(); ++t) result.points.push_back({static_cast<double>(t), losses[t]});
  return result;
}

}  // namespace

void study_full(Report& report) {
  const auto start = std::chrono::steady_clock::now();
  const Shakespeare text = load_shakespeare(0.1, 0.1);
  const std::array<Model, 2> models{{{"window", NormOver::Window}, {"one position", NormOver::Position}}};
  Report::Rows rows;
  std::vector<train::LineChart::Series> curves, places;
  for (size_t stage = 0; stage < kStages.size(); ++stage) {
    Report::Rows stage_rows(models.size());
    std::array<bool, models.size()> done{};
    curves.assign(models.size(), {});
    std::vector<train::LineChart::Series> stage_places(2 * models.size());
    run_jobs(models.size(), [&](size_t i) {
      const std::chrono::duration<double, std::ratio<60>> spent = std::chrono::steady_clock::now() - start;
      const Config config{.vocab_size = text.vocab_size, .norm = models[i].norm};
      Training training(config, text, report.seed(), file_of(models[i], stage, report.seed()));
      done[i] = training.train_to(kStages[stage], kMinutes - spent.count());
      curves[i] = {models[i].name, training.curve()};
      if (!done[i]) {
        report.say(fmt::format("{}: {} steps so far; run this again to go on", models[i].name, training.steps()));
        return;
      }
      const Findings found = look_for_leaks(training.model(), text.splits.validation, kWindows);
      std::vector<double> evaluations;
      training.model()->dropout().generator.set_current_seed(report.seed());
      const data::BatchSampler batches(text.splits.validation, 32, config.window, report.seed() + 1);
      for (uint64_t n = 0; n < 20; ++n) {
        evaluations.push_back(loss_as_the_tutorial_takes_it(training.model(), batches, n));
      }
      stage_rows[i] = {
          models[i].name,       kStages[stage],      range_of(evaluations),        mean_of(found.losses),
          found.losses.front(), found.losses.back(), mean_gain_from_future(found), mean_of(found.without_future),
          found.change};
      stage_places[2 * i] = series(models[i].name, found.losses);
      stage_places[2 * i + 1] = series(models[i].name + ", other futures", found.other_futures);
    });
    if (!done[0] || !done[1]) break;
    rows.insert(rows.end(), stage_rows.begin(), stage_rows.end());
    places = stage_places;
  }
  report.table("The tutorial's model, one seed",
               {"norm over", "steps", "as the tutorial evaluates", "mean loss", "first position", "last position",
                "saved by the future", "given no future", "change of earlier logits"},
               rows);
  report.picture("full.svg", {.title = "The tutorial's evaluation while its model is trained",
                              .x_label = "step",
                              .y_label = "validation loss (nats per character)",
                              .series = curves,
                              .references = {{"notebook at 5000", 1.5532}, {"notebook at 25,000", 0.9997}}});
  if (places.empty()) return;
  report.picture("full_places.svg", {.title = "The loss at each place of the window",
                                     .x_label = "place in the window",
                                     .y_label = "validation loss (nats per character)",
                                     .series = places});
}

}  // namespace folio::experiments::tutorial
