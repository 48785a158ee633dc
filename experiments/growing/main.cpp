// Trains each rung's model with eight seeds, compares it with the previous rung, and prints samples. The results are
// explained in README.md. --rung N runs only rung N, and --rung tensors only the introduction to tensors. --details
// runs the additional training runs quoted in the README instead.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "core/error.h"
#include "experiments/growing/climb.h"
#include "experiments/growing/details.h"
#include "experiments/growing/on_paper.h"
#include "train/report/ngram.h"

namespace {

using namespace folio;           // NOLINT: a program, never included by another file
using namespace folio::growing;  // NOLINT
using experiments::Report;

// Returns the validation loss during training, averaged over the seeds.
train::LineChart::Series curve(const std::string& name, const Climbed& climbed, const Setting& s) {
  train::LineChart::Series series{name, {}};
  for (size_t k = 0; k < climbed.trainings[0].validation.size(); ++k) {
    std::vector<double> losses;
    for (const Training& t : climbed.trainings) losses.push_back(t.validation[k]);
    const auto step = std::min(s.steps, static_cast<int64_t>(k) * s.evaluate_every);
    series.points.push_back({static_cast<double>(step), experiments::mean_of(losses)});
  }
  return series;
}

// Checks the order of the rungs' losses, for each seed. `all` begins with rung 2; `counted` is the loss of rung 1.
void check_order(Report& report, const std::vector<Climbed>& all, double counted) {
  const auto gain = [&](int from, int to) {
    return experiments::differences(all[static_cast<size_t>(from - 2)].losses, all[static_cast<size_t>(to - 2)].losses);
  };
  std::vector<double> from_counts;
  for (const double loss : all[0].losses) from_counts.push_back(loss - counted);
  report.check_below("the learned bigram is above the counted one by", from_counts, 0.1);
  report.check_above("averaging loses against the bigram", gain(3, 2), 0.3);
  report.check_above("a head gains against averaging", gain(3, 4), 0.3);
  report.check_above("RoPE gains", gain(7, 8), 0.05);
  report.check_above("SwiGLU gains", gain(8, 9), 0.05);
  report.check_above("four blocks gain against one", gain(9, 10), 0.03);
  report.check_above("AdamW gains", gain(10, 11), 0.08);
}

constexpr int kTensors = -1;  // stands for `--rung tensors` where a rung number is expected

void study(Report& report, int only, bool details) {
  const experiments::Shakespeare text = experiments::load_shakespeare();
  Setting setting{.seed = report.seed()};
  if (report.short_form()) setting.steps = 20, setting.evaluate_every = 10;
  const Text validation = text.splits.validation.first(report.short_form() ? 2049 : 16'385);
  std::vector<uint64_t> seeds(report.short_form() ? 1 : 8);
  for (size_t i = 0; i < seeds.size(); ++i) seeds[i] = report.seed() + i;

  if (details) return show_details(report, only, text, setting, validation);

  if (only == 0 || only == kTensors) show_tensors(report);
  if (only == kTensors) return;
  const Counts counts(text.splits.train, text.vocab_size);
  const double counted = counts.loss(validation);
  if (only <= 1)
    report.say(fmt::format("rung 1, counts: {:.3f}, and writes\n{}", counted, written(counts, text, report.seed())));
  if (only == 0 || only == 2) show_batch(report, text, setting);
  if (only == 0 || only == 3) show_averages(report), show_scale(report);

  Report::Rows rows{{"1 counts", text.vocab_size * text.vocab_size, counted, nullptr}};
  std::vector<train::LineChart::Series> curves;
  std::vector<Climbed> all;
  for (const Rung& rung : rungs(text.vocab_size)) {
    if (only != 0 && rung.number != only) continue;
    const std::string name = fmt::format("{} {}", rung.number, rung.name);
    all.push_back(climb(report, rung, text, setting, validation, seeds));
    const Climbed& now = all.back();
    report.say(fmt::format("rung {} writes\n{}\n", name, now.sample));
    const bool compared = all.size() > 1 && seeds.size() > 1;
    rows.push_back({name, now.parameters, experiments::mean_of(now.losses),
                    compared ? Report::Json(experiments::shown(
                                   experiments::paired_interval(now.losses, all[all.size() - 2].losses)))
                             : Report::Json()});
    curves.push_back(curve(name, now, setting));
    check_sound(report, name, now.trainings, now.future_seen, text.vocab_size);
  }
  report.table(fmt::format("Validation loss after {} steps, mean of {} seeds", setting.steps, seeds.size()),
               {"rung", "parameters", "loss", "against the rung before"}, rows);
  if (!report.short_form() && only == 0) check_order(report, all, counted);
  const train::NgramCounts n_grams(text.splits.train, text.vocab_size, 5);
  const double five = n_grams.witten_bell_loss(validation, 5);
  report.say(fmt::format("a 5-gram by counting: {:.3f} on these characters, {:.3f} on the whole validation text", five,
                         n_grams.witten_bell_loss(text.splits.validation, 5)));
  report.picture("growing.svg", {.title = "One model that becomes a Llama, rung by rung",
                                 .x_label = "step (512 characters each)",
                                 .y_label = "validation loss (nats per character)",
                                 .series = curves,
                                 .references = {{"1 counts", counted}, {"5-gram by counting", five}}});
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<char*> others;
  int only = 0;
  bool details = false;
  for (int i = 0; i < argc; ++i) {
    const std::string_view flag = argv[i];
    if (flag == "--details") {
      details = true;
      continue;
    }
    if (flag != "--rung") {
      others.push_back(argv[i]);
      continue;
    }
    const std::string_view value = i + 1 < argc ? argv[++i] : "";
    if (value == "tensors") {
      only = kTensors;
      continue;
    }
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), only);
    if (error != std::errc{} || end != value.data() + value.size() || only < 1 || only > 11) {
      fmt::print(stderr, "growing: --rung is a whole number from 1 to 11 or tensors, not {}\n", core::printable(value));
      return 2;
    }
  }
  return experiments::run(static_cast<int>(others.size()), others.data(), "growing",
                          [only, details](Report& report) { study(report, only, details); });
}
