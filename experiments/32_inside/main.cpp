// Study: which attention heads attend to the previous token, and which are induction heads? The results are explained
// in README.md.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>
#include <numeric>

#include "experiments/32_inside/scores.h"
#include "experiments/32_inside/text_models.h"
#include "experiments/32_inside/two_layers.h"
#include "experiments/common/comparison.h"
#include "experiments/common/interval_chart.h"

namespace folio::experiments {
namespace {

// The loss of a model with some heads disabled.
struct Ablation {
  std::string name;
  std::vector<int64_t> n_heads{};  // by seed: number of disabled heads
  Doubles late{};                  // by seed: loss of the repeated tokens
};

constexpr double kPrevious = 0.2;  // minimum previous-token score for a layer-0 head to count as a previous-token head

// Returns the first step of `course` for which `reached` is true, or -1.
template <typename Reached>
int64_t first_step(const std::vector<Measured>& course, Reached reached) {
  const auto found = std::ranges::find_if(course, reached);
  return found == course.end() ? -1 : found->step;
}

double best_of_layer(const Doubles& scores, int64_t layer) {
  return largest({scores.begin() + layer * kHeads, scores.begin() + (layer + 1) * kHeads});
}

// Returns the n heads of a layer with the largest scores, in descending order, after skipping the first `skipped`.
std::vector<Head> heads_by(const Doubles& scores, int64_t layer, size_t n, size_t skipped = 0) {
  std::vector<Head> heads;
  const auto order = from_largest({scores.begin() + layer * kHeads, scores.begin() + (layer + 1) * kHeads});
  for (const size_t i : std::span(order).subspan(skipped, n)) heads.push_back({layer, static_cast<int64_t>(i)});
  return heads;
}

double correlation(const Doubles& a, const Doubles& b) {
  const double mean_a = mean_of(a), mean_b = mean_of(b);
  double ab = 0.0, aa = 0.0, bb = 0.0;
  for (size_t i = 0; i < a.size(); ++i) {
    ab += (a[i] - mean_a) * (b[i] - mean_b);
    aa += (a[i] - mean_a) * (a[i] - mean_a);
    bb += (b[i] - mean_b) * (b[i] - mean_b);
  }
  return ab / std::sqrt(aa * bb);
}

void show_course(Report& report, const std::vector<uint64_t>& seeds, const std::vector<Learner>& two,
                 const std::vector<Learner>& one) {
  Report::Rows rows;
  for (size_t i = 0; i < two[0].course.size(); ++i) {
    Doubles early, late, previous, prefix, late_of_one;
    for (size_t s = 0; s < seeds.size(); ++s) {
      const Measured& m = two[s].course[i];
      early.push_back(m.early);
      late.push_back(m.late);
      previous.push_back(best_of_layer(m.previous, 0));
      prefix.push_back(best_of_layer(m.prefix, 1));
      late_of_one.push_back(one[s].course[i].late);
    }
    rows.push_back({std::to_string(two[0].course[i].step), mean_of(early), mean_of(late), mean_of(previous),
                    mean_of(prefix), mean_of(late_of_one)});
  }
  report.table(fmt::format("Over the steps, means of {} seeds", seeds.size()),
               {"step", "loss, early", "late", "token before, layer 0", "prefix, layer 1", "late, one layer"}, rows);

  rows.clear();
  train::LineChart losses{.title = "Within some hundred steps, tokens that repeat cost little",
                          .x_label = "step",
                          .y_label = "loss (nats per token)",
                          .references = {{"random guessing", std::log(kVocabulary)}}};
  train::LineChart scores{.title = "In the same steps, heads learn to attend to the token to copy",
                          .x_label = "step",
                          .y_label = "largest score of a head"};
  Doubles together;
  for (size_t s = 0; s < seeds.size(); ++s) {
    const std::vector<Measured>& course = two[s].course;
    train::LineChart::Series late{fmt::format("late, seed {}", seeds[s]), {}},
        prefix{fmt::format("prefix, seed {}", seeds[s]), {}};
    Doubles late_losses, prefix_scores;
    for (const Measured& m : course) {
      late_losses.push_back(m.late);
      prefix_scores.push_back(best_of_layer(m.prefix, 1));
      late.points.push_back({static_cast<double>(m.step), m.late});
      prefix.points.push_back({static_cast<double>(m.step), prefix_scores.back()});
    }
    losses.series.push_back(late);
    scores.series.push_back(prefix);
    together.push_back(correlation(late_losses, prefix_scores));
    rows.push_back({std::to_string(seeds[s]),
                    first_step(course, [](const Measured& m) { return best_of_layer(m.previous, 0) >= kPrevious; }),
                    first_step(course, [](const Measured& m) { return best_of_layer(m.prefix, 1) >= 0.2; }),
                    first_step(course, [&](const Measured& m) { return m.late < 0.5 * course.front().late; }),
                    together.back()});
  }
  report.table("The first step at which",
               {"seed", "token before, layer 0, reaches 0.2", "prefix, layer 1, reaches 0.2", "the late loss is halved",
                "correlation"},
               rows);
  report.picture("losses.svg", losses);
  report.picture("scores.svg", scores);
  if (!report.short_form()) report.check_below("correlation of the late loss with the score", together, -0.9);
}

// Reports the losses of the two-layer models with some heads disabled.
void show_ablations(Report& report, const std::vector<uint64_t>& seeds, std::vector<Learner>& two) {
  std::vector<Ablation> ablations{{"whole"},
                                  {"without the previous-token heads"},
                                  {"without the others of layer 0"},
                                  {"without the best induction head"},
                                  {"without all of layer 1"}};
  Report::Rows rows;
  for (size_t s = 0; s < two.size(); ++s) {
    const Measured& end = two[s].course.back();
    std::vector<Head> before, others;
    for (int64_t i = 0; i < 2 * kHeads; ++i) {
      const Head head{i / kHeads, i % kHeads};
      const double previous = end.previous[static_cast<size_t>(i)];
      if (head.layer == 0) (previous >= kPrevious ? before : others).push_back(head);
      rows.push_back({fmt::format("seed {}, {}", seeds[s], shown(head)), previous, end.prefix[static_cast<size_t>(i)],
                      measure(two[s].model, std::array{head}).late});
    }
    const std::array<std::vector<Head>, 5> off{
        {{}, before, others, heads_by(end.prefix, 1, 1), heads_by(end.prefix, 1, kHeads)}};
    for (size_t i = 0; i < off.size(); ++i) {
      ablations[i].late.push_back(measure(two[s].model, off[i]).late);
      ablations[i].n_heads.push_back(std::ssize(off[i]));
    }
  }
  report.table("Late loss without one head", {"head", "token before", "prefix", "loss"}, rows);
  const double guessing = std::log(kVocabulary);
  IntervalChart chart{.title = "Which heads can a model of two layers do without?",
                      .subtitle = "late loss with the outputs of some heads 0; mean of five seeds, 95 % interval",
                      .x_label = "nats per token",
                      .rows = {},
                      .references = {{"random guessing", guessing}}};
  rows.clear();
  for (const Ablation& it : ablations) {
    rows.push_back({it.name, joined(it.n_heads), mean_of(it.late), joined(it.late)});
    if (two.size() > 1) chart.rows.push_back({it.name, mean_interval(it.late)});
  }
  report.table("Late loss with the output 0 of some heads", {"", "heads, by seed", "loss", "by seed"}, rows);
  if (report.short_form()) return;
  report.picture("ablations.svg", chart.svg());
  report.check_below("late loss at the end", ablations[0].late, 0.5);
  report.check_above("late loss without the previous-token heads", ablations[1].late, guessing);
  report.check_above("late loss without the heads of layer 1", ablations[4].late, guessing);
  report.check_above("previous-token heads against the others of layer 0",
                     differences(ablations[1].late, ablations[2].late), 1.5);
}

// Draws the attention weights of the learner's best heads, followed by the panels of other models.
void draw_attention(Report& report, Learner& learner, std::vector<HeatMap::Panel> others) {
  std::vector<int32_t> vocabulary(kVocabulary);
  std::iota(vocabulary.begin(), vocabulary.end(), 0);
  const auto tokens = repeated_tokens(vocabulary, kDrawnPeriod, kDrawn, report.seed());
  HeatMap map{.title = "Twelve random tokens, three times",
              .subtitle = "how much of each position (column) goes into each position (row)",
              .row_label = "position",
              .column_label = "position that is read"};
  const Measured& end = learner.course.back();
  for (const Head& head : {heads_by(end.previous, 0, 1)[0], heads_by(end.prefix, 1, 1)[0]}) {
    map.panels.push_back(attention_panel("two layers, head " + shown(head), weights_of(learner.model, head, tokens)));
  }
  map.panels.insert(map.panels.end(), others.begin(), others.end());
  report.picture("attention.svg", map.svg());
}

void two_layers(Report& report, const std::vector<HeatMap::Panel>& others) {
  const auto seeds = five_seeds(report);
  const int64_t steps = report.short_form() ? 40 : 800;
  report.say(fmt::format("two layers, and one, {} steps each", steps));
  std::vector<Learner> two(seeds.size()), one(seeds.size());
  const std::clock_t start = std::clock();  // CPU time of all threads
  run_jobs(2 * seeds.size(), [&](size_t i) {
    const size_t s = i / 2;
    (i % 2 == 0 ? two : one)[s] = train_on_repetitions(i % 2 == 0 ? 2 : 1, steps, seeds[s]);
  });
  report.value("processor minutes of all trainings", static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC / 60.0);
  show_course(report, seeds, two, one);
  show_ablations(report, seeds, two);
  draw_attention(report, two[0], others);

  Doubles apart, early, best, best_of_one, gap;
  for (size_t s = 0; s < seeds.size(); ++s) {
    const Measured &end = two[s].course.back(), &end_of_one = one[s].course.back();
    apart.push_back(largest_difference(two[s].model));
    early.push_back(end.early);
    best.push_back(best_of_layer(end.prefix, 1));
    best_of_one.push_back(largest(end_of_one.prefix));
    gap.push_back(end_of_one.late - end.late);
  }
  report.check_below("largest difference of a logit from the model's own", apart, 1e-3);
  if (report.short_form()) return;
  report.check_above("early loss at the end", early, std::log(kVocabulary) - 0.1);
  report.check_above("largest prefix-matching score at the end", best, 0.7);
  report.check_below("largest prefix-matching score with one layer", best_of_one, 0.2);
  report.check_above("nats that two layers save against one, late", gap, 1.5);
}

void study(Report& report) { two_layers(report, inspect_models(report)); }

}  // namespace
}  // namespace folio::experiments

int main(int argc, char** argv) { return folio::experiments::run(argc, argv, "32_inside", folio::experiments::study); }
