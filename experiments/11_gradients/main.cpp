// Study: do backward passes derived by hand equal autograd's, and how does a wrong one affect training? The results are
// explained in README.md.
#include <fmt/format.h>
#include <torch/nn/utils/clip_grad.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <tuple>

#include "data/batches.h"
#include "experiments/11_gradients/hand_parts.h"
#include "experiments/common/comparison.h"
#include "experiments/common/interval_chart.h"
#include "experiments/common/report.h"
#include "experiments/common/statistics.h"
#include "experiments/common/training.h"
#include "train/step/adamw.h"
#include "train/step/evaluate.h"

namespace folio::experiments {
namespace {

namespace hand = by_hand;
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

IntervalChart::Row range_of_logs(const std::string& name, Doubles values) {
  for (double& value : values) value = std::log10(value);
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  return {name, {mean_of(values), *low, *high}};
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
  IntervalChart chart{.title = "How far gradients by hand are from autograd's, in double",
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
  report.picture("errors.svg", chart);
}

struct Trained {
  std::string name;
  Mistake mistake;
  Doubles losses{}, cosines{};  ///< by seed: final validation loss; mean cosine similarity to autograd's gradients
  Doubles cost{};               ///< by seed: final validation loss minus that of training with autograd
};

// Returns an Update for train_model(model, text, config) that takes AdamW steps with the gradients of llama_backward()
// instead of autograd's. Each step appends the cosine similarity of both gradients to `cosines`.
Update hand_update(nn::Llama& model, const Shakespeare& text, const train::TrainConfig& config, Mistake mistake,
                   Doubles& cosines) {
  const data::BatchSampler batches(text.splits.train, config.batch_size, config.window, config.seed);
  const auto adamw = std::make_shared<train::AdamW>(*model, config);
  return [=, &model, &cosines, clip = config.clip](double lr) {
    // The batch of this step, from which train_model() computed autograd's gradients.
    const auto batch = train::to_tensors(batches.batch(cosines.size()), torch::kCPU);
    const auto by_name = hand::llama_backward(model, batch.inputs_BT, batch.targets_BT, mistake);
    std::vector<torch::Tensor> autograds, by_hand;
    for (const auto& parameter : model->named_parameters()) {
      const torch::Tensor& gradient = by_name.at(parameter.key());
      autograds.push_back(parameter.value().grad().flatten());
      by_hand.push_back(gradient.flatten());
      parameter.value().mutable_grad() = gradient;
    }
    cosines.push_back(torch::cosine_similarity(torch::cat(autograds), torch::cat(by_hand), 0).item<double>());
    if (clip > 0.0) torch::nn::utils::clip_grad_norm_(model->parameters(), clip);
    adamw->step(lr);
  };
}

void train_with_mistakes(Report& report) {
  const Shakespeare text = load_shakespeare();
  train::TrainConfig setting = small_setting(text);
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
  run_jobs(all.size() * seeds.size(), [&](size_t i) {
    const size_t s = i % seeds.size();
    Trained& t = all[i / seeds.size()];
    train::TrainConfig config = setting;
    config.seed = seeds[s];
    nn::Llama model = seeded_llama(config.model, config.seed);
    const bool by_autograd = &t == &all.front();
    Doubles cosines;
    const auto update = by_autograd ? Update{} : hand_update(model, text, config, t.mistake, cosines);
    t.losses[s] = train_model(model, text, config, update).validation_loss;
    if (!by_autograd) t.cosines[s] = mean_of(cosines);
  });

  Report::Rows rows;
  IntervalChart chart{.title = fmt::format("What a mistake costs after {} steps", setting.steps),
                      .subtitle = "validation loss minus autograd's, paired by seed, with 95 % intervals",
                      .x_label = "nats per character",
                      .rows = {},
                      .references = {{"autograd", 0.0}}};
  for (Trained& t : all) {
    t.cost = differences(t.losses, all[0].losses);
    const auto interval = paired_interval(t.losses, all[0].losses);
    rows.push_back({t.name, joined(t.losses), shown(interval), joined(t.cosines)});
    if (&t == &all.front()) continue;
    chart.rows.push_back({t.name, interval});
    report.value(t.name + ": loss minus autograd's, mean", interval.mean);
    report.value(t.name + ": cosine, mean", mean_of(t.cosines));
  }
  report.table(fmt::format("After {} steps, by seed", setting.steps),
               {"gradients", "validation loss", "against autograd", "mean cosine with autograd"}, rows);
  report.picture("mistakes.svg", chart);
  report.check_below("training by hand is training by autograd, losses apart by", sizes(all[1].cost), 0.005);
  report.check_above("RMSNorm's mistake costs", all[2].cost, 0.2);
  report.check_below("SwiGLU's mistake can't be seen in the loss, which it moves by", sizes(all[5].cost), 0.1);
}

void study(Report& report) {
  check_parts(report);
  train_with_mistakes(report);
}

}  // namespace
}  // namespace folio::experiments

int main(int argc, char** argv) {
  return folio::experiments::run(argc, argv, "11_gradients", folio::experiments::study);
}
