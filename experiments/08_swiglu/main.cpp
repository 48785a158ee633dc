// Is SwiGLU better than ReLU and GELU? Table, picture and explanation: README.md beside this file.
#include <fmt/format.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "experiments/common/comparison.h"
#include "experiments/common/interval_chart.h"
#include "experiments/common/variants.h"

namespace {

using namespace folio;  // NOLINT: a program of one file
using experiments::Report;
using experiments::Variant;
using Activation = experiments::PlainFeedForwardImpl::Activation;

// The feed-forwards of one width from one kind of first values, SwiGLU first.
struct Group {
  std::string name;
  std::vector<Variant> variants{};
};

Group make_group(core::ModelConfig model, int64_t dim, bool by_width, bool with_gelu) {
  model.dim = dim;
  model.head_dim = dim / model.n_heads;
  model.hidden_dim = 11 * dim / 4;
  const auto plain = [](Activation activation) {
    return [=](const core::ModelConfig& c) { return experiments::blocks_with_plain_feed_forward(c, activation); };
  };
  Group group{fmt::format("width {}, {}", dim, by_width ? "1/√width" : "0.02")};
  group.variants = {{"SwiGLU", model}, {"ReLU", model, plain(Activation::ReLU)}};
  if (with_gelu) group.variants.push_back({"GELU", model, plain(Activation::GELU)});
  for (Variant& variant : group.variants) {
    variant.name += ", " + group.name;
    if (by_width) variant.prepare = experiments::draw_feed_forwards_by_width;
  }
  return group;
}

// The root mean square of what the first feed-forward adds to the stream before training.
double first_output(const Variant& variant, const experiments::Shakespeare& text, uint64_t seed) {
  nn::Llama model = experiments::seeded_llama(variant.model, seed,
                                              variant.blocks ? variant.blocks(variant.model) : nn::BlockFactory{});
  if (variant.prepare) variant.prepare(model);
  double rms = 0.0;
  const torch::NoGradGuard no_grad;
  const auto first = text.splits.train.first(static_cast<size_t>(variant.model.context_length));
  model->forward(torch::tensor(std::vector<int64_t>(first.begin(), first.end())).unsqueeze(0),
                 [&](const std::string& name, const torch::Tensor& value) {
                   if (name == "layers.0.ffn") rms = value.square().mean().sqrt().item<double>();
                 });
  return rms;
}

void claim_starts(Report& report, const std::vector<Group>& groups, const experiments::Shakespeare& text) {
  for (size_t g = 0; g < 2; ++g) {  // the smallest width, from both kinds of first values
    std::vector<double> share;
    for (const uint64_t seed : experiments::paired_seeds(report)) {
      share.push_back(first_output(groups[g].variants[0], text, seed) /
                      first_output(groups[g].variants[1], text, seed));
    }
    const std::string what = groups[g].name + ": SwiGLU's first output as a share of ReLU's";
    if (g == 0) report.claim_below(what, share, 0.15);
    if (g == 1) report.claim_above(what, share, 0.5);
  }
}

// By group and variant: width 32 from 0.02 and by width, then width 64.
void claim_losses(Report& report, const std::vector<std::vector<experiments::Outcome>>& all) {
  const auto apart = [&](size_t group, size_t a, size_t b) {
    return experiments::differences(all[group][a].losses, all[group][b].losses);
  };
  report.claim_above("width 32, 0.02: SwiGLU is worse than ReLU by", apart(0, 0, 1), 0.03);
  report.claim_above("width 64, 0.02: SwiGLU is worse than ReLU by", apart(2, 0, 1), 0.01);
  report.claim_above("width 64, 1/√width: ReLU is worse than SwiGLU by", apart(3, 1, 0), 0.015);
  report.claim_above("width 64, 1/√width: GELU is worse than SwiGLU by", apart(3, 2, 0), 0.01);
  report.claim_above("width 64: SwiGLU gains from larger first values",
                     experiments::differences(all[2][0].losses, all[3][0].losses), 0.05);
}

void study(Report& report) {
  const experiments::Shakespeare text = experiments::load_shakespeare();
  train::TrainConfig setting = experiments::small_setting(text);
  setting.steps = report.short_form() ? 60 : 200;
  setting.eval_every = setting.steps;
  setting.schedule = "cosine";  // a constant rate leaves the noise of the last batches in the losses
  setting.min_lr = setting.lr / 10.0;

  std::vector<Group> groups;
  for (const int64_t dim : {32, 64}) {
    if (report.short_form() && dim == 64) continue;
    for (const bool by_width : {false, true}) groups.push_back(make_group(setting.model, dim, by_width, dim == 64));
  }
  std::vector<std::vector<Report::Json>> rows;
  std::vector<experiments::IntervalChart::Row> chart;
  std::vector<std::vector<experiments::Outcome>> all;
  for (const Group& group : groups) {
    const auto outcomes =
        experiments::train_variants(report, text, setting, group.variants, experiments::paired_seeds(report));
    all.push_back(outcomes);
    for (size_t i = 0; i < outcomes.size(); ++i) {
      const auto difference = experiments::paired_interval(outcomes[i].losses, outcomes[0].losses);
      if (i > 0) {
        report.claim_equal(outcomes[i].name + ": as many parameters as SwiGLU", outcomes[i].parameters,
                           outcomes[0].parameters);
      }
      rows.push_back({outcomes[i].name, outcomes[i].parameters, first_output(group.variants[i], text, report.seed()),
                      experiments::mean_of(outcomes[i].losses),
                      i == 0 ? Report::Json() : Report::Json(experiments::shown(difference))});
      if (i > 0) chart.push_back({outcomes[i].name, difference});
    }
  }
  report.table(fmt::format("After {} steps", setting.steps),
               {"feed-forward", "parameters", "first output", "loss", "against SwiGLU"}, rows);
  claim_starts(report, groups, text);
  if (!report.short_form()) claim_losses(report, all);
  report.picture(
      "swiglu.svg",
      experiments::IntervalChart{.title = "ReLU and GELU against SwiGLU, at equal parameters",
                                 .subtitle = "names with the spread of the first values of w1 and w3",
                                 .x_label = "validation loss minus that of SwiGLU (nats); below 0 SwiGLU is worse",
                                 .rows = chart,
                                 .references = {{"no difference", 0.0}}}
          .svg());
}

}  // namespace

int main(int argc, char** argv) { return experiments::run(argc, argv, "08_swiglu", study); }
