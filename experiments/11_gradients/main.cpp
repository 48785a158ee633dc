// Study: do backward passes derived by hand equal autograd's, and how does a wrong one affect training? The results are
// explained in README.md.
#include <fmt/format.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "experiments/11_gradients/hand_parts.h"
#include "experiments/11_gradients/hand_training.h"
#include "experiments/common/comparison.h"
#include "experiments/common/interval_chart.h"
#include "experiments/common/report.h"
#include "experiments/common/statistics.h"

namespace {

using namespace folio;  // NOLINT: a single-file program
namespace hand = experiments::by_hand;
using experiments::Report;
using hand::Mistake;
using Doubles = std::vector<double>;

// Relative errors of a part's gradients, by seed, against autograd in double. naive: full Jacobians against the form
// without them. mistaken: with the part's most common mistake.
struct Errors {
  Doubles in_double, in_float, autograd_in_float, naive, mistaken;
  Doubles share;  ///< sum of in_double, in_float and naive, each divided by Part::limit(); must be < 1
};

// Formats the largest value as "1.2e-16". Returns null, shown as a dash, if there are no values.
Report::Json largest(const Doubles& values) {
  if (values.empty()) return {};
  return fmt::format("{:.1e}", *std::max_element(values.begin(), values.end()));
}

experiments::IntervalChart::Row range_of_logs(const std::string& name, Doubles values) {
  for (double& value : values) value = std::log10(value);
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  return {name, {experiments::mean_of(values), *low, *high}};
}

void check_parts(Report& report) {
  std::vector<hand::Part> parts;
  std::vector<Errors> errors;
  for (const uint64_t seed : report.seeds()) {
    parts = hand::make_parts(seed);
    errors.resize(parts.size());
    for (size_t i = 0; i < parts.size(); ++i) {
      const hand::Part& part = parts[i];
      Errors& e = errors[i];
      const auto truth = part.autograd(torch::kDouble);
      const auto error = [&](const hand::Part::Tensors& d) { return hand::relative_error(d, truth); };
      e.in_double.push_back(error(part.by_hand(torch::kDouble, Mistake::None)));
      e.in_float.push_back(error(part.by_hand(torch::kFloat, Mistake::None)));
      e.autograd_in_float.push_back(error(part.autograd(torch::kFloat)));
      e.share.push_back(e.in_double.back() / part.limit(torch::kDouble) +
                        e.in_float.back() / part.limit(torch::kFloat));
      if (!part.naive) continue;
      e.naive.push_back(hand::relative_error(part.naive(), part.fast()));
      e.share.back() += e.naive.back() / part.limit(torch::kDouble);
      e.mistaken.push_back(error(part.by_hand(torch::kDouble, part.mistake)));
    }
  }

  Report::Rows rows, sizes;
  experiments::IntervalChart chart{
      .title = "How far gradients by hand are from autograd's, in double",
      .subtitle = "the mean and the range over the seeds",
      .x_label = "log10 of the relative error",
      .rows = {},
      .references = {{"a double's rounding", std::log10(0x1p-53)}, {"a float's", std::log10(0x1p-24)}}};
  for (size_t i = 0; i < parts.size(); ++i) {
    const auto& [name, e] = std::tie(parts[i].name, errors[i]);
    rows.push_back({name, largest(e.in_double), largest(e.in_float), largest(e.autograd_in_float),
                    largest({parts[i].limit(torch::kFloat)}), largest(e.mistaken)});
    chart.rows.push_back(range_of_logs(name, e.in_double));
    report.check_below(name + ": by hand = Jacobian = autograd; the errors' share of what rounding allows", e.share,
                       1.0);
    if (e.mistaken.empty()) continue;
    sizes.push_back({name, parts[i].jacobian, parts[i].kept, largest(e.naive)});
    chart.rows.push_back(range_of_logs(name + ", mistaken", e.mistaken));
    report.check_above(name + ": the common mistake's relative error", e.mistaken, 0.05);
  }
  report.table("Relative errors of the gradients, the largest of all seeds",
               {"part", "double", "float", "autograd in float", "limit in float", "mistake"}, rows);
  report.table("The naive form", {"part", "elements of Jacobians", "values kept instead", "difference"}, sizes);
  report.picture("errors.svg", chart.svg());
}

struct Trained {
  std::string name;
  Mistake mistake;
  Doubles losses{}, cosines{};  ///< by seed: final validation loss; mean cosine similarity to autograd's gradients
  Doubles cost{};               ///< by seed: final validation loss minus that of training with autograd
};

void train_with_mistakes(Report& report) {
  const experiments::Shakespeare text = experiments::load_shakespeare();
  train::TrainConfig setting = experiments::small_setting(text);
  setting.steps = report.short_form() ? 50 : 120;
  setting.eval_every = setting.steps;
  std::vector<Trained> all{{"autograd", Mistake::None},
                           {"by hand", Mistake::None},
                           {"RMSNorm's mistake", Mistake::RmsNorm},
                           {"RoPE's mistake", Mistake::Rope},
                           {"softmax's mistake", Mistake::Softmax},
                           {"SwiGLU's mistake", Mistake::SwiGlu},
                           {"cross-entropy's mistake", Mistake::CrossEntropy}};
  const std::vector<uint64_t> seeds = report.seeds();
  for (Trained& t : all) t.losses = t.cosines = Doubles(seeds.size(), 1.0);
  experiments::run_jobs(all.size() * seeds.size(), [&](size_t i) {
    const size_t s = i % seeds.size();
    Trained& t = all[i / seeds.size()];
    train::TrainConfig config = setting;
    config.seed = seeds[s];
    nn::Llama model = experiments::seeded_llama(config.model, config.seed);
    hand::HandUpdate update(model, text, config, t.mistake);
    const bool by_autograd = &t == &all.front();
    t.losses[s] = experiments::train_model(model, text, config, by_autograd ? experiments::Update{} : std::ref(update))
                      .validation_loss;
    if (!by_autograd) t.cosines[s] = update.mean_cosine();
  });

  Report::Rows rows;
  experiments::IntervalChart chart{.title = fmt::format("What a mistake costs after {} steps", setting.steps),
                                   .subtitle = "validation loss minus autograd's, paired by seed, with 95 % intervals",
                                   .x_label = "nats per character",
                                   .rows = {},
                                   .references = {{"autograd", 0.0}}};
  for (Trained& t : all) {
    t.cost = experiments::differences(t.losses, all[0].losses);
    const auto interval = experiments::paired_interval_or_difference(t.losses, all[0].losses);
    rows.push_back(
        {t.name, experiments::joined(t.losses), experiments::shown(interval), experiments::joined(t.cosines)});
    if (&t == &all.front()) continue;
    chart.rows.push_back({t.name, interval});
    report.value(t.name + ": loss minus autograd's, mean", interval.mean);
    report.value(t.name + ": cosine, mean", experiments::mean_of(t.cosines));
  }
  report.table(fmt::format("After {} steps, by seed", setting.steps),
               {"gradients", "validation loss", "against autograd", "mean cosine with autograd"}, rows);
  report.picture("mistakes.svg", chart.svg());
  report.check_below("training by hand is training by autograd, losses apart by", experiments::sizes(all[1].cost),
                     0.005);
  report.check_above("RMSNorm's mistake costs", all[2].cost, 0.2);
  report.check_below("SwiGLU's mistake can't be seen in the loss, which it moves by", experiments::sizes(all[5].cost),
                     0.1);
}

void study(Report& report) {
  torch::set_num_threads(1);
  check_parts(report);
  train_with_mistakes(report);
}

}  // namespace

int main(int argc, char** argv) { return experiments::run(argc, argv, "11_gradients", study); }
