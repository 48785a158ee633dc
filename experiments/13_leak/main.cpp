// Study: does the last model of B. Kitano's "Llama from scratch" leak later characters? The results are explained in
// README.md. --full trains the model in its original size, in runs of ten minutes.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <string_view>

#include "experiments/13_leak/full.h"
#include "experiments/13_leak/leaks.h"
#include "experiments/13_leak/training.h"
#include "experiments/common/comparison.h"
#include "experiments/common/heat_map.h"
#include "experiments/common/report.h"
#include "experiments/common/statistics.h"
#include "train/report/ngram.h"

namespace folio::experiments {
namespace {

using tutorial::Findings;
using tutorial::NormOver;
using Doubles = std::vector<double>;

// A variant of the norm and its measurements.
struct Variant {
  std::string name;
  NormOver norm;
  std::vector<Findings> findings{};  // by seed: leaks of the trained model
  Doubles early{};                   // by seed: loss reduction due to later characters, after 1/4 of the steps
  torch::Tensor gradients_TT{};      // first seed: influence of each character (column) on each position's loss (row)

  // Returns `of`, a function or member of Findings, for each seed.
  template <typename Of>
  [[nodiscard]] Doubles each(Of of) const {
    Doubles values;
    for (const Findings& f : findings) values.push_back(std::invoke(of, f));
    return values;
  }
};

double mean_loss(const Findings& f) { return mean_of(f.losses); }
double first_loss(const Findings& f) { return f.losses.front(); }
double exchanged_loss(const Findings& f) { return mean_of(f.other_futures); }
double last_loss(const Findings& f) { return f.losses.back(); }

std::vector<Variant> variants() {
  return {{"norm over the window", NormOver::Window},
          {"norm over the positions so far", NormOver::Past},
          {"norm over one position", NormOver::Position}};
}

std::vector<Report::Json> row(const Variant& v) {
  const auto mean = [&](auto of) { return mean_of(v.each(of)); };
  return {v.name,
          mean(mean_loss),
          mean(first_loss),
          mean(last_loss),
          mean(tutorial::mean_gain_from_future),
          mean(&Findings::change),
          mean(&Findings::later_share)};
}

void table(Report& report, const std::string& title, const std::vector<Variant>& all) {
  Report::Rows rows;
  for (const Variant& v : all) rows.push_back(row(v));
  report.table(title,
               {"", "mean loss", "first position", "last position", "saved by the future", "change of earlier logits",
                "gradient from later positions"},
               rows);
}

// Shows the loss of an n-gram model at the first position and on average over 16 positions. It predicts each character
// from the preceding ones in the window, at most four.
void show_what_counting_reaches(Report& report, const Shakespeare& text) {
  const train::NgramCounts counts(text.splits.train, text.vocab_size, 5);
  double sum = 0.0;
  for (int place = 0; place < 16; ++place) {
    sum += counts.witten_bell_loss(text.splits.validation, std::min(place + 2, 5));
  }
  report.value("by counting, the first position", counts.witten_bell_loss(text.splits.validation, 2));
  report.value("by counting, the mean of 16 positions", sum / 16.0);
}

train::LineChart::Series by_position(const std::string& name, const std::vector<Findings>& findings,
                                     std::vector<double> Findings::*losses) {
  train::LineChart::Series series{.name = name, .points = {}};
  for (size_t t = 0; t < (findings[0].*losses).size(); ++t) {
    double sum = 0.0;
    for (const Findings& f : findings) sum += (f.*losses)[t];
    series.points.push_back({static_cast<double>(t), sum / static_cast<double>(findings.size())});
  }
  return series;
}

HeatMap::Panel panel(const Variant& v) {
  const torch::Tensor map_TT = (v.gradients_TT / v.gradients_TT.sum(1, /*keepdim=*/true)).contiguous();
  return {.title = v.name,
          .rows = map_TT.size(0),
          .columns = map_TT.size(1),
          .values = {map_TT.data_ptr<double>(), map_TT.data_ptr<double>() + map_TT.numel()}};
}

// Draws the losses by position and the first seed's gradient maps for two variants of the norm.
void pictures(Report& report, const Variant& window, const Variant& position) {
  report.picture("places.svg",
                 {.title = "With the norm over the window, the future helps every place but the last",
                  .x_label = "place in the window",
                  .y_label = "validation loss (nats per character)",
                  .series = {by_position("window", window.findings, &Findings::losses),
                             by_position("window, other futures", window.findings, &Findings::other_futures),
                             by_position("one position", position.findings, &Findings::losses)}});
  report.picture("gradients.svg",
                 HeatMap{.title = "How much the loss at each place (row) depends on each place (column)",
                         .subtitle = "size of the gradient, as a share of its row",
                         .row_label = "place of the loss",
                         .column_label = "place of the character",
                         .panels = {panel(window), panel(position)}});
}

void study(Report& report) {
  const Shakespeare text = load_shakespeare(0.1, 0.1);
  const int64_t steps = report.short_form() ? 120 : 1000;
  const int64_t windows = report.short_form() ? 128 : 256;
  const auto seeds = report.short_form() ? report.seeds() : paired_seeds(report);
  std::vector<Variant> all = variants();
  for (Variant& v : all) {
    v.findings.resize(seeds.size());
    v.early.resize(seeds.size());
  }
  run_jobs(all.size() * seeds.size(), [&](size_t i) {
    Variant& v = all[i / seeds.size()];
    const size_t s = i % seeds.size();
    const tutorial::Config config{
        .vocab_size = text.vocab_size, .dim = 32, .n_heads = 2, .n_layers = 2, .norm = v.norm};
    tutorial::Training training(config, text, seeds[s]);
    training.train_to(steps / 4);
    if (v.norm == NormOver::Window) {
      v.early[s] =
          tutorial::mean_gain_from_future(tutorial::look_for_leaks(training.model(), text.splits.validation, windows));
    }
    training.train_to(steps);
    v.findings[s] = tutorial::look_for_leaks(training.model(), text.splits.validation, windows);
    if (s == 0) v.gradients_TT = tutorial::gradient_map(training.model(), text.splits.validation);
  });

  const Variant &window = all[0], &position = all[2];
  const Doubles saved = window.each(tutorial::mean_gain_from_future), nothing(seeds.size(), 0.0);
  const std::vector<std::pair<std::string, Interval>> intervals{
      {"saved by the future", paired_interval(saved, nothing)},
      {fmt::format("more than after {} steps", steps / 4), paired_interval(saved, window.early)},
      {"mean loss, more than one position's", paired_interval(window.each(mean_loss), position.each(mean_loss))},
      {"loss at the last position, more than one position's",
       paired_interval(window.each(last_loss), position.each(last_loss))},
      {"with other futures, more than one position's",
       paired_interval(window.each(exchanged_loss), position.each(mean_loss))}};
  Report::Rows rows;
  for (const auto& [name, interval] : intervals) {
    rows.push_back({name, shown(interval)});
    report.value(name, interval.mean);
  }
  report.value(fmt::format("saved after {} steps", steps / 4), mean_of(window.early));
  table(report, fmt::format("After {} steps, means of {} seeds", steps, seeds.size()), all);
  report.table("Norm over the window: 5 means with 95 % intervals", {"", ""}, rows);
  show_what_counting_reaches(report, text);

  int64_t parameters = 0;
  for (const torch::Tensor& p : tutorial::seeded({}, 1)->parameters()) parameters += p.numel();
  report.check_equal("the tutorial's number of parameters, in its own size", parameters, 2'370'246);
  report.check_below("validation split's 17-grams that occur in the training split, as a share",
                     tutorial::share_that_occurs(text.splits.validation, text.splits.train, 17), 0.03);
  report.check_above("norm over the window: the last character changes an earlier logit by",
                     window.each(&Findings::change), 0.1);
  report.check_above("and the future saves earlier positions (the interval's lower end)", intervals[0].second.low,
                     report.short_form() ? 0.0 : 0.01);
  for (const size_t sound : {1, 2}) {
    const Variant& v = all[sound];
    report.check_below(v.name + ": the last character changes earlier logits by", v.each(&Findings::change), 1e-5);
    report.check_below("and the gradient from later positions is", v.each(&Findings::later_share), 1e-9);
    report.check_below("and the future saves", sizes(v.each(tutorial::mean_gain_from_future)), 1e-5);
  }
  pictures(report, window, position);
}

}  // namespace
}  // namespace folio::experiments

int main(int argc, char** argv) {
  std::vector<char*> rest(argv, argv + argc);
  const bool full =
      std::erase_if(rest, [](const char* argument) { return std::string_view(argument) == "--full"; }) > 0;
  return folio::experiments::run(static_cast<int>(rest.size()), rest.data(), "13_leak",
                                 full ? folio::experiments::tutorial::study_full : folio::experiments::study);
}
