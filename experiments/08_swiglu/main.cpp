// Study: is SwiGLU better than ReLU and GELU? The results are explained in README.md.
#include <fmt/format.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>

#include "experiments/common/comparison.h"
#include "experiments/common/interval_chart.h"
#include "experiments/common/variants.h"
#include "train/verify/observe.h"

namespace folio::experiments {
namespace {

using Activation = PlainFeedForwardImpl::Activation;

// Returns SwiGLU, ReLU and GELU variants of width `dim`. If `by_width`, initializes w1 and w3 from N(0, 1/dim).
std::vector<Variant> variants_of(core::ModelConfig model, int64_t dim, bool by_width) {
  model.dim = dim;
  model.head_dim = dim / model.n_heads;
  model.hidden_dim = 11 * dim / 4;
  const auto plain = [&](Activation activation) { return blocks_with_plain_feed_forward(model, activation); };
  std::vector<Variant> variants{
      {"SwiGLU", model}, {"ReLU", model, plain(Activation::ReLU)}, {"GELU", model, plain(Activation::GELU)}};
  for (Variant& variant : variants) {
    variant.name += by_width ? ", 1/√width" : ", 0.02";
    if (by_width) variant.prepare = draw_feed_forwards_by_width;
  }
  return variants;
}

// Returns the root mean square of the first feed-forward's output before training.
double first_output(const Variant& variant, const Shakespeare& text, uint64_t seed) {
  nn::Llama model = seeded_llama(variant.model, seed, variant.blocks, variant.prepare);
  double rms = 0.0;
  const torch::NoGradGuard no_grad;
  const auto first = text.splits.train.first(static_cast<size_t>(variant.model.context_length));
  train::forward_observed(model, torch::tensor(std::vector<int64_t>(first.begin(), first.end())).unsqueeze(0),
                          [&](const std::string& name, const torch::Tensor& value) {
                            if (name == "layers.0.ffn") rms = value.square().mean().sqrt().item<double>();
                          });
  return rms;
}

// Shows the RMS of the first feed-forward's output before training, at several widths.
void show_starts(Report& report, const Shakespeare& text, const core::ModelConfig& model) {
  Report::Rows rows;
  for (const bool by_width : {false, true}) {
    for (const int64_t dim : {64, 256, 1024}) {
      if (report.short_form() && dim > 64) continue;
      std::vector<double> outputs;
      for (const Variant& variant : variants_of(model, dim, by_width)) {
        outputs.push_back(first_output(variant, text, report.seed()));
      }
      const double share = outputs[0] / outputs[1];
      rows.push_back({fmt::format("{}, {}", dim, by_width ? "1/√width" : "0.02"), outputs[0], outputs[1], outputs[2],
                      fmt::format("{:.2f}", share)});
      const std::string what =
          fmt::format("width {}, {}: SwiGLU's first output as a share of ReLU's", dim, by_width ? "1/√width" : "0.02");
      if (by_width) report.check_above(what, share, 0.5);
      if (!by_width && dim == 64) report.check_below(what, share, 0.15);
    }
  }
  report.table("What the first feed-forward adds before training (root mean square)",
               {"width, first values of w1 and w3", "SwiGLU", "ReLU", "GELU", "SwiGLU / ReLU"}, rows);
}

// Shows each variant's lowest, fourth, fifth and highest loss over the seeds, to see if they form one cluster or two.
void show_seeds(Report& report, const std::vector<Outcome>& outcomes) {
  Report::Rows rows;
  for (const Outcome& outcome : outcomes) {
    std::vector<double> sorted = outcome.losses;
    std::ranges::sort(sorted);
    rows.push_back({outcome.name, sorted.front(), sorted[3], sorted[4], sorted.back()});
  }
  report.table("Losses of the seeds, each feed-forward's in order",
               {"feed-forward", "lowest", "fourth", "fifth", "highest"}, rows);
}

void study(Report& report) {
  const Shakespeare text = load_shakespeare();
  train::TrainConfig setting = decaying_setting(text, report.short_form() ? 20 : 200);
  show_starts(report, text, setting.model);

  std::vector<Variant> variants = variants_of(setting.model, setting.model.dim, false);
  for (Variant& variant : variants_of(setting.model, setting.model.dim, true)) variants.push_back(std::move(variant));
  const auto rates = tune_variants(report, text, setting, variants);
  // SwiGLU's losses vary so much that tuning on two seeds may choose a bad rate. Also run it at the setting's rate.
  Variant untuned = variants[0];
  untuned.name += fmt::format(" at {:g}", untuned.lr = setting.lr);
  variants.push_back(std::move(untuned));
  const auto outcomes = train_variants(report, text, setting, variants, paired_seeds(report));
  const auto difference = [&](size_t a, size_t b) { return paired_interval(outcomes[a].losses, outcomes[b].losses); };

  Report::Rows rate_rows, rows;
  std::vector<IntervalChart::Row> chart;
  for (size_t i = 0; i < outcomes.size(); ++i) {
    const size_t swiglu = i < 6 ? i / 3 * 3 : 0;  // index of SwiGLU with the same initialization
    if (i < rates.size()) rate_rows.push_back({outcomes[i].name, shown(rates[i])});
    rows.push_back({outcomes[i].name, outcomes[i].parameters, fmt::format("{:g}", variants[i].lr),
                    mean_of(outcomes[i].losses),
                    i == swiglu ? Report::Json() : Report::Json(shown(difference(i, swiglu)))});
    if (i == swiglu) continue;
    chart.push_back({outcomes[i].name, difference(i, swiglu)});
    report.check_equal(outcomes[i].name + ": as many parameters as SwiGLU", outcomes[i].parameters,
                       outcomes[swiglu].parameters);
  }
  report.table("Loss by learning rate, mean of the seeds on which it is chosen", {"feed-forward", "loss"}, rate_rows);
  rows.push_back({"SwiGLU, 0.02 against SwiGLU, 1/√width", {}, {}, {}, shown(difference(0, 3))});
  rows.push_back({"the same, at 0.003", {}, {}, {}, shown(difference(6, 3))});
  rows.push_back({"ReLU, 0.02 against SwiGLU, 0.02 at 0.003", {}, {}, {}, shown(difference(1, 6))});
  report.table(
      fmt::format("After {} steps, each at its best rate; {}", setting.steps, count_of_intervals(chart.size() + 3)),
      {"feed-forward", "parameters", "rate", "loss", "against SwiGLU"}, rows);
  if (!report.short_form()) {
    show_seeds(report, outcomes);
    report.check_above("0.02: SwiGLU at its own rate is worse than ReLU by", difference(0, 1), 0.02);
    report.check_above("0.02: SwiGLU at 0.003 is worse than ReLU by", difference(6, 1), 0.02);
    report.check_above("1/√width: ReLU is worse than SwiGLU by", difference(4, 3), 0.0);
    report.check_above("SwiGLU gains from 1/√width, even against 0.02 at 0.003", difference(6, 3), 0.02);
  }
  report.picture("swiglu.svg",
                 IntervalChart{.title = "ReLU and GELU against SwiGLU, at equal parameters, each at its best rate",
                               .subtitle = "names with the spread of the first values of w1 and w3",
                               .x_label = "validation loss minus that of SwiGLU (nats); below 0 SwiGLU is worse",
                               .rows = chart,
                               .references = {{"no difference", 0.0}}});
}

}  // namespace
}  // namespace folio::experiments

int main(int argc, char** argv) { return folio::experiments::run(argc, argv, "08_swiglu", folio::experiments::study); }
