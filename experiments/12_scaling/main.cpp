// How does the loss fall with the model's size and with the tokens that it sees? `--full` fits a law to more of both.
// Tables, pictures and explanation: README.md beside this file.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "experiments/common/scaling_grid.h"
#include "experiments/common/statistics.h"

namespace {

using namespace folio;  // NOLINT: a program of one file
using experiments::Report;
using experiments::ScalingGrid;
using experiments::ScalingLaw;
using experiments::ScalingPoint;
using experiments::ScalingRuns;
using Doubles = std::vector<double>;

// The middle 95 % of some values.
std::string middle(Doubles values) {
  std::sort(values.begin(), values.end());
  const double last = static_cast<double>(values.size() - 1);
  return fmt::format("[{:.3g}, {:.3g}]", values[static_cast<size_t>(std::lround(0.025 * last))],
                     values[static_cast<size_t>(std::lround(0.975 * last))]);
}

void fit(Report& report, const ScalingGrid& grid, train::LineChart& chart) {
  std::vector<ScalingPoint> points;
  for (const ScalingRuns& run : grid.runs) points.push_back(run.mean());
  const ScalingLaw law = experiments::fit_scaling_law(points);
  const std::vector<ScalingLaw> others = experiments::bootstrap(grid.runs, 200, report.seed());
  std::vector<std::vector<Report::Json>> rows;
  const auto add = [&](const std::string& name, const auto& number_of) {
    Doubles values;
    for (const ScalingLaw& other : others) values.push_back(number_of(other));
    rows.push_back({name, fmt::format("{:.3g}", number_of(law)), middle(values)});
  };
  add("E", [](const ScalingLaw& l) { return l.E; });
  add("A", [](const ScalingLaw& l) { return l.A; });
  add("alpha", [](const ScalingLaw& l) { return l.alpha; });
  add("B", [](const ScalingLaw& l) { return l.B; });
  add("beta", [](const ScalingLaw& l) { return l.beta; });
  add("beta / (alpha + beta)", [](const ScalingLaw& l) { return l.beta / (l.alpha + l.beta); });
  chart.series.push_back({"best by the law", {}});
  for (const double flops : {1e10, 3e10, 1e11, 3e11}) {
    add(fmt::format("best N of {:g} operations", flops),
        [=](const ScalingLaw& l) { return l.optimum(flops).parameters; });
    add(fmt::format("best D of {:g} operations", flops), [=](const ScalingLaw& l) { return l.optimum(flops).tokens; });
    chart.series.back().points.push_back({flops, law.optimum(flops).loss});
  }
  report.table("L = E + A / N^alpha + B / D^beta", {"", "fit", "the middle 95 % of 200 bootstraps"}, rows);

  // How far does it carry? The largest size, and the longest training, by laws that didn't see them.
  rows = {{"law of all", experiments::relative_deviation(law, points), {}}};
  const auto leave_out = [&](const std::string& name, const auto& is_out) {
    std::vector<ScalingPoint> in, out;
    for (const ScalingPoint& p : points) (is_out(p) ? out : in).push_back(p);
    const ScalingLaw partial = experiments::fit_scaling_law(in);
    rows.push_back({name, experiments::relative_deviation(partial, in), experiments::relative_deviation(partial, out)});
  };
  const double largest = points.back().parameters, longest = points.back().tokens;
  leave_out("law without the largest size", [&](const ScalingPoint& p) { return p.parameters == largest; });
  leave_out("law without the longest training", [&](const ScalingPoint& p) { return p.tokens == longest; });
  for (auto& row : rows) {
    for (size_t i : {1, 2})
      row[i] = row[i].is_null() ? row[i] : Report::Json(fmt::format("{:.4f}", row[i].get<double>()));
  }
  report.table("Typical relative error", {"", "on what it was fitted to", "on what was left out"}, rows);
}

// With the longest training every size beats the one before it, and with the largest size so does every length.
void claim_order(Report& report, const ScalingGrid& grid) {
  const size_t largest = grid.widths.size() - 1, longest = grid.steps.size() - 1;
  const auto claim = [&](const std::string& text, const ScalingRuns& before, const ScalingRuns& after) {
    report.claim_above(text, experiments::differences(before.losses, after.losses), 0.01);
  };
  for (size_t i = 1; i < grid.widths.size(); ++i) {
    claim(fmt::format("width {} gains over {}", grid.widths[i], grid.widths[i - 1]), grid.at(i - 1, longest),
          grid.at(i, longest));
  }
  for (size_t j = 1; j < grid.steps.size(); ++j) {
    claim(fmt::format("{} steps gain over {}", grid.steps[j], grid.steps[j - 1]), grid.at(largest, j - 1),
          grid.at(largest, j));
  }
}

void study(Report& report, bool full) {
  ScalingGrid grid{.widths = {16, 32, 64}, .steps = {100, 200, 400}};
  if (report.short_form()) grid = {.widths = {16, 64}, .steps = {50, 200}};
  if (full) grid = {.widths = {16, 32, 48, 64, 96}, .steps = {100, 200, 400, 800, 1600}};
  grid.train(report);

  train::LineChart chart{.title = "Loss by computation, a line for each size",
                         .x_label = "floating-point operations, 6 N D",
                         .y_label = "validation loss (nats per character)",
                         .log_x = true};
  std::vector<std::vector<Report::Json>> rows;
  for (size_t i = 0; i < grid.widths.size(); ++i) {
    chart.series.push_back({fmt::format("N = {:.0f}", grid.at(i, 0).parameters), {}});
    for (size_t j = 0; j < grid.steps.size(); ++j) {
      const ScalingPoint p = grid.at(i, j).mean();
      rows.push_back({fmt::format("width {}, {} steps", grid.widths[i], grid.steps[j]), std::llround(p.parameters),
                      std::llround(p.tokens), p.loss, experiments::joined(grid.at(i, j).losses)});
      chart.series.back().points.push_back({6.0 * p.parameters * p.tokens, p.loss});
    }
  }
  report.table("Loss by size and tokens", {"", "N", "D", "mean loss", "by seed"}, rows);
  claim_order(report, grid);
  if (full) fit(report, grid, chart);
  report.picture(full ? "scaling_full.svg" : "scaling.svg", chart);
}

}  // namespace

int main(int argc, char** argv) {
  // The frame knows no --full: it is this study's own.
  char** const end = std::remove_if(argv, argv + argc, [](std::string_view flag) { return flag == "--full"; });
  const bool full = end != argv + argc;
  return experiments::run(static_cast<int>(end - argv), argv, "12_scaling", [full](Report& r) { study(r, full); });
}
