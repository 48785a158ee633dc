// Study: how does autograd work? Compares a plain C++ autograd tape with LibTorch. Results are explained in README.md.
#include <fmt/format.h>

#include <cmath>

#include "core/random.h"
#include "experiments/14_tape/graph.h"
#include "experiments/14_tape/operations.h"
#include "experiments/14_tape/rungs.h"
#include "experiments/14_tape/twin.h"
#include "experiments/common/report.h"
#include "experiments/common/shakespeare.h"

namespace folio::experiments {
namespace {

using tape::Rung;

// Windows per batch, characters per window and width as in experiments/growing; number of steps with compared losses.
constexpr int64_t kRows = 16, kLength = 32, kWidth = 64, kCompared = 20;

std::string small_number(double value) { return fmt::format("{:.1e}", value); }

// Draws and checks the graph of a loss with scalar entries: (w x + b)².
void draw_small_graph(Report& report) {
  tape::Tape tape;
  const tape::Tensor w = tape.leaf("w", {}, {2.0}), x = tape.leaf("x", {}, {3.0}), b = tape.leaf("b", {}, {-5.0});
  const tape::Tensor d = w * x + b;
  const tape::Tensor loss = d * d;
  tape.backward(loss);
  report.picture("graph.svg", tape::graph_svg(tape, "The tape of d = w x + b and loss = d d",
                                              "values were computed downwards, gradients upwards"));
  report.check_equal("d is used twice: its gradient 2 d is", std::lround(d.gradient()[0]), 2);
  report.check_equal("the gradient of w, 2 d x, is", std::lround(w.gradient()[0]), 6);
}

void check_gradients(Report& report) {
  Report::Rows rows;
  double share = 0.0, differences = 0.0;
  for (const tape::Check& c : tape::check_gradients(report.seed())) {
    rows.push_back({c.name, small_number(c.error), small_number(c.limit), c.differences});
    share = larger(share, c.error / c.limit);
    differences = larger(differences, c.differences);
  }
  report.table("Gradients on the tape", {"of", "against LibTorch", "limit", "against differences, share of tolerance"},
               rows);
  report.check_below("gradients equal LibTorch's; the largest error as a share of what rounding allows", share, 1.0);
  report.check_below("gradients equal central differences; the largest error as a share of its tolerance", differences,
                     1.0);
}

// Trains on each batch in turn. Returns the losses before each step.
std::vector<double> tape_losses(Rung& rung, const std::vector<data::Batch>& batches) {
  std::vector<double> losses;
  for (const data::Batch& batch : batches) losses.push_back(tape::descend(rung, batch));
  return losses;
}

double farthest(const std::vector<double>& a, const std::vector<double>& b, size_t count) {
  double worst = 0.0;
  for (size_t i = 0; i < count; ++i) worst = larger(worst, std::abs(a[i] - b[i]));
  return worst;
}

// Returns a bound on the difference between the first kCompared losses of two correct training runs. Each step adds at
// most tape::roundings() rounding errors of half an ulp. A run with perturbed initial values measures how training
// amplifies errors.
double rounding_limit(const Rung& rung, const std::vector<data::Batch>& batches, const std::vector<double>& losses) {
  constexpr double kMoved = 0x1p-20, kHalfUlp = 0x1p-53;
  Rung moved = rung;
  uint64_t drawn = 0;
  for (tape::Parameter& p : moved.parameters) {
    for (double& value : p.value) value *= core::random_below(7, ++drawn, 2) == 0 ? 1.0 - kMoved : 1.0 + kMoved;
  }
  const std::vector<data::Batch> first(batches.begin(), batches.begin() + kCompared);
  const double condition = farthest(tape_losses(moved, first), losses, kCompared) / kMoved;
  const double roundings = tape::roundings(rung, kRows, kLength);
  return roundings * kHalfUlp * (2.0 * kCompared * condition + losses[0]);
}

double validation_loss(const Rung& rung, const Shakespeare& text) {
  constexpr int64_t kWindows = 512;
  tape::Tape tape;
  const auto w = tape::leaves(tape, rung);
  return rung.loss(w, data::consecutive_batch(text.splits.validation, 0, kWindows, kLength)).value()[0];
}

// Returns how many elements of values and gradients a tape stores for one batch.
int64_t kept(const Rung& rung, const data::Batch& batch) {
  tape::Tape tape;
  static_cast<void>(rung.loss(tape::leaves(tape, rung), batch));
  int64_t numbers = 0;
  for (const tape::Node& node : tape.nodes()) numbers += 2 * node.shape.size();
  return numbers;
}

// Draws the graph of the trained one-head model's loss on one short window.
void draw_head(Report& report, const Rung& rung, const Shakespeare& text) {
  const std::vector<int32_t> line = text.tokenizer.encode("ROMEO:\nBe");
  const auto length = static_cast<int64_t>(line.size()) - 1;
  const data::Batch batch{
      .rows = 1, .length = length, .inputs = {line.begin(), line.end() - 1}, .targets = {line.begin() + 1, line.end()}};
  tape::Tape tape;
  const tape::Tensor loss = rung.loss(tape::leaves(tape, rung), batch);
  tape.backward(loss);
  report.picture("one_head.svg", tape::graph_svg(tape, "The tape of one attention head and its loss",
                                                 fmt::format("a window of {} characters, vectors of {} numbers, {} "
                                                             "characters in all",
                                                             length, kWidth, text.vocab_size)));
}

void train(Report& report) {
  const Shakespeare text = load_shakespeare();
  const int64_t steps = report.short_form() ? 25 : 1000;
  const data::BatchSampler sampler(text.splits.train, kRows, kLength, report.seed());
  std::vector<data::Batch> batches;
  for (int64_t step = 0; step < steps; ++step) batches.push_back(sampler.batch(static_cast<uint64_t>(step)));

  Report::Rows rows, sizes;
  train::LineChart chart{
      .title = "Two rungs trained on the tape", .x_label = "step", .y_label = "loss of the batch, mean of 50"};
  std::vector<double> reached;
  for (Rung rung : {tape::bigram(text.vocab_size), tape::one_head(text.vocab_size, kWidth, report.seed())}) {
    const Rung first = rung;
    sizes.push_back({rung.name, kept(rung, sampler.batch(0)),
                     kept(rung, data::BatchSampler(text.splits.train, 2 * kRows, kLength, 1).batch(0))});
    const std::vector<double> losses = tape_losses(rung, batches);
    const std::vector<double> twin = tape::libtorch_losses(first, batches);
    const double apart = farthest(losses, twin, kCompared), limit = rounding_limit(first, batches, losses);
    reached.push_back(validation_loss(rung, text));
    rows.push_back({rung.name, losses[0], reached.back(), small_number(apart), small_number(limit),
                    small_number(farthest(losses, twin, losses.size()))});
    report.check_below(fmt::format("{}: the first {} losses are LibTorch's; apart, as a share of what rounding allows",
                                   rung.name, kCompared),
                       apart / limit, 1.0);
    train::LineChart::Series curve{.name = rung.name, .points = {}};
    for (size_t i = 0; i + 50 <= losses.size(); i += 50) {
      double mean = 0.0;
      for (size_t j = i; j < i + 50; ++j) mean += losses[j] / 50.0;
      curve.points.push_back({static_cast<double>(i + 25), mean});
    }
    chart.series.push_back(curve);
    if (rung.name == "one head") draw_head(report, rung, text);
  }
  report.table(fmt::format("After {} steps", steps),
               {"rung", "first loss", "validation loss", "first 20 losses apart", "limit", "all losses apart"}, rows);
  report.table("Values kept for one loss",
               {"rung", fmt::format("{} windows of {}", kRows, kLength), fmt::format("{} windows", 2 * kRows)}, sizes);
  report.picture("losses.svg", chart);
  if (!report.short_form()) {
    for (size_t i = 0; i < 2; ++i) {
      report.check_below(sizes[i][0].get<std::string>() + ": validation loss", reached[i], 2.6);
    }
  }
}

void study(Report& report) {
  draw_small_graph(report);
  check_gradients(report);
  train(report);
}

}  // namespace
}  // namespace folio::experiments

int main(int argc, char** argv) { return folio::experiments::run(argc, argv, "14_tape", folio::experiments::study); }
