// Study: how does the loss fall with the number of parameters and of tokens, and how is a compute budget best divided?
// The results are explained in README.md.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "experiments/12_scaling/scaling_grid.h"
#include "experiments/common/statistics.h"

namespace folio::experiments {
namespace {

using Doubles = std::vector<double>;

// Formats the interval of the central 95 % of the values: "[0.31, 0.42]".
std::string middle(Doubles values) {
  std::sort(values.begin(), values.end());
  const double last = static_cast<double>(values.size() - 1);
  return fmt::format("[{:.3g}, {:.3g}]", values[static_cast<size_t>(std::lround(0.025 * last))],
                     values[static_cast<size_t>(std::lround(0.975 * last))]);
}

template <typename NumberOf>
std::string with_middle(const ScalingLaw& law, const std::vector<ScalingLaw>& others, const NumberOf& number_of) {
  Doubles values;
  for (const ScalingLaw& other : others) values.push_back(number_of(other));
  return fmt::format("{:.3g} {}", number_of(law), middle(values));
}

// Shows the FLOPs per training token by kind of operation.
void show_operations(Report& report, const ScalingGrid& grid) {
  Report::Rows rows;
  const auto percent = [](double part, double all) { return fmt::format("{:.1f} %", 100.0 * part / all); };
  for (size_t i = 0; i < grid.widths.size(); ++i) {
    const double n = grid.at(i, 0).parameters;
    const auto operations = grid.operations_per_token(n);
    rows.push_back({grid.widths[i], std::llround(n), std::llround(operations.all()),
                    percent(operations.matrices, operations.all()), percent(operations.head, operations.all()),
                    percent(operations.attention, operations.all())});
  }
  report.table("Floating-point operations for each token of training",
               {"width", "N", "operations", "6 N", "the head", "attention's sums"}, rows);
}

void show_law(Report& report, const ScalingLaw& law, const std::vector<ScalingLaw>& others) {
  Report::Rows rows;
  const auto add = [&](const std::string& name, const auto& number_of) {
    rows.push_back({name, with_middle(law, others, number_of)});
    report.value(name, number_of(law));
  };
  add("E", [](const ScalingLaw& l) { return l.E; });
  add("A", [](const ScalingLaw& l) { return l.A; });
  add("alpha", [](const ScalingLaw& l) { return l.alpha; });
  add("B", [](const ScalingLaw& l) { return l.B; });
  add("beta", [](const ScalingLaw& l) { return l.beta; });
  add("beta / (alpha + beta)", [](const ScalingLaw& l) { return l.beta / (l.alpha + l.beta); });
  report.table("L = E + A / N^alpha + B / D^beta, with the middle 95 % of 200 bootstraps", {"", "fit"}, rows);
}

void show_budgets(Report& report, const ScalingGrid& grid, const ScalingLaw& law, const std::vector<ScalingLaw>& others,
                  train::LineChart& chart) {
  const auto operations = [&](double n) { return grid.operations_per_token(n).all(); };
  const ScalingRuns &smallest = grid.runs.front(), &largest = grid.runs.back();
  Report::Rows rows;
  chart.series.push_back({"best by the law", {}});
  for (const double flops : {1e10, 3e10, 5e10, 1e11, 3e11}) {
    const ScalingPoint best = law.optimum(flops, operations);
    std::string outside;  // describes which of N and D is outside the range of the training runs
    if (best.parameters < smallest.parameters) outside += "N below all trained; ";
    if (best.parameters > largest.parameters) outside += "N above all trained; ";
    if (best.tokens < smallest.tokens) outside += "D below all trained; ";
    if (best.tokens > largest.tokens) outside += "D above all trained; ";
    rows.push_back(
        {fmt::format("{:g}", flops),
         with_middle(law, others, [&](const ScalingLaw& l) { return l.optimum(flops, operations).parameters; }),
         with_middle(law, others, [&](const ScalingLaw& l) { return l.optimum(flops, operations).tokens; }),
         fmt::format("{:.0f}", best.tokens / best.parameters), best.loss,
         outside.empty() ? "no" : "yes: " + outside.substr(0, outside.size() - 2)});
    report.value(fmt::format("best N for {:g}", flops), best.parameters);
    report.value(fmt::format("best D for {:g}", flops), best.tokens);
    if (outside.empty()) chart.series.back().points.push_back({flops, best.loss});
  }
  report.table("The best share of a budget", {"operations", "best N", "best D", "D / N", "loss", "extrapolated"}, rows);
}

// Tests extrapolation in model size: fits the law without the largest size, then without the two largest, and predicts
// the losses of the largest models. Does the same for the longest training runs.
void judge_law(Report& report, const ScalingGrid& grid, const ScalingLaw& law,
               const std::vector<ScalingPoint>& points) {
  const auto percent = [](double share) { return fmt::format("{:.2f} %", 100.0 * share); };
  Report::Rows rows{{"law of all", {}, percent(relative_deviation(law, points)), {}}};
  report.check_below("typical relative error of the law", relative_deviation(law, points), 0.015);
  // Fits a law only to the points p with p.*number <= seen. Adds a table row "law without `what`": the law's relative
  // errors on the fitted points and on the points with the largest p.*number.
  const auto leave_out = [&](const std::string& what, double ScalingPoint::*number, double seen) {
    const double largest = points.back().*number;
    std::vector<ScalingPoint> in, out;
    for (const ScalingPoint& p : points) {
      if (p.*number <= seen) in.push_back(p);
      if (p.*number == largest) out.push_back(p);
    }
    const ScalingLaw partial = fit_scaling_law(in);
    const double error = relative_deviation(partial, out);
    rows.push_back({"law without " + what, fmt::format("{:.1f}", largest / seen),
                    percent(relative_deviation(partial, in)), percent(error)});
    return error;
  };
  const size_t n = grid.widths.size(), m = grid.steps.size();
  const auto parameters = [&](size_t width) { return grid.at(width, 0).parameters; };
  const auto tokens = [&](size_t step) { return grid.at(0, step).tokens; };
  report.check_below("typical relative error on the largest size, left out of the fit",
                     leave_out("the largest size", &ScalingPoint::parameters, parameters(n - 2)), 0.03);
  report.check_below("typical relative error on the longest training, left out of the fit",
                     leave_out("the longest training", &ScalingPoint::tokens, tokens(m - 2)), 0.03);
  leave_out("the two largest sizes", &ScalingPoint::parameters, parameters(n - 3));
  leave_out("the two longest trainings", &ScalingPoint::tokens, tokens(m - 3));
  report.table("Typical relative error, and how many times larger the largest is than what was fitted",
               {"", "times", "on what it was fitted to", "on the largest, left out of the fit"}, rows);
}

// Checks that each larger width has a lower loss after the longest training, and that each longer training has a lower
// loss at the largest width.
void check_order(Report& report, const ScalingGrid& grid) {
  const size_t largest = grid.widths.size() - 1, longest = grid.steps.size() - 1;
  const auto check = [&](const std::string& text, const ScalingRuns& before, const ScalingRuns& after) {
    report.check_above(text, differences(before.losses, after.losses), 0.01);
  };
  for (size_t i = 1; i < grid.widths.size(); ++i) {
    check(fmt::format("width {} gains over {}", grid.widths[i], grid.widths[i - 1]), grid.at(i - 1, longest),
          grid.at(i, longest));
  }
  for (size_t j = 1; j < grid.steps.size(); ++j) {
    check(fmt::format("{} steps gain over {}", grid.steps[j], grid.steps[j - 1]), grid.at(largest, j - 1),
          grid.at(largest, j));
  }
}

void study(Report& report) {
  ScalingGrid grid{.widths = {16, 32, 48, 64, 96}, .steps = {100, 200, 400, 800, 1600}};
  if (report.short_form()) grid = {.widths = {16, 64}, .steps = {20, 80}};
  grid.train(report);

  train::LineChart chart{.title = "Loss by computation, a line for each size",
                         .x_label = "floating-point operations of the training",
                         .y_label = "validation loss (nats per character)",
                         .log_x = true};
  Report::Rows rows, means;
  std::vector<std::string> lengths{"N"};
  for (size_t j = 0; j < grid.steps.size(); ++j) {
    lengths.push_back(fmt::format("D = {}", std::llround(grid.at(0, j).tokens)));
  }
  std::vector<ScalingPoint> points;
  for (size_t i = 0; i < grid.widths.size(); ++i) {
    chart.series.push_back({fmt::format("N = {:.0f}", grid.at(i, 0).parameters), {}});
    means.push_back({std::llround(grid.at(i, 0).parameters)});
    for (size_t j = 0; j < grid.steps.size(); ++j) {
      const ScalingPoint p = points.emplace_back(grid.at(i, j).mean());
      rows.push_back({fmt::format("width {}, {} steps", grid.widths[i], grid.steps[j]), std::llround(p.parameters),
                      std::llround(p.tokens), p.loss, joined(grid.at(i, j).losses)});
      means.back().emplace_back(p.loss);
      chart.series.back().points.push_back({grid.operations_per_token(p.parameters).all() * p.tokens, p.loss});
    }
  }
  report.table("Loss by size and tokens", {"", "N", "D", "mean loss", "by seed"}, rows);
  report.table("Mean losses", lengths, means);
  show_operations(report, grid);
  if (report.short_form()) {
    report.check_above("width 64 gains over 16", grid.at(0, 1).mean().loss - grid.at(1, 1).mean().loss, 0.0);
  } else {
    check_order(report, grid);
    const ScalingLaw law = fit_scaling_law(points);
    const std::vector<ScalingLaw> others = bootstrap(grid.runs, 200, report.seed());
    show_law(report, law, others);
    judge_law(report, grid, law, points);
    show_budgets(report, grid, law, others, chart);
  }
  report.picture("scaling.svg", chart);
}

}  // namespace
}  // namespace folio::experiments

int main(int argc, char** argv) { return folio::experiments::run(argc, argv, "12_scaling", folio::experiments::study); }
