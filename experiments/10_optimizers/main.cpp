// Which update rule gets furthest in 300 steps, each at its own best rate, and what do warm-up and clipping add?
// Tables, pictures and explanation: README.md beside this file.
#include <fmt/format.h>
#include <torch/types.h>

#include <tuple>

#include "data/batches.h"
#include "experiments/common/comparison.h"
#include "experiments/common/interval_chart.h"
#include "experiments/common/optimizer_trials.h"
#include "train/evaluate.h"

namespace {

using namespace folio;  // NOLINT: a program of one file
using experiments::Contender;
using experiments::Report;
using experiments::Rule;
using Doubles = std::vector<double>;

// Muon's step from a gradient G = U S Vᵀ, the naive way and the fast one.
void show_orthogonalized(Report& report, const experiments::Shakespeare& text, const train::TrainConfig& setting) {
  nn::Llama model = experiments::seeded_llama(setting.model, report.seed());
  const data::BatchSampler batches(text.splits.train, setting.batch_size, setting.window, report.seed());
  const auto batch = train::to_tensors(batches.batch(0), torch::kCPU);
  model->loss(batch.inputs_BT, batch.targets_BT).backward();
  const torch::Tensor g = model->named_parameters()["layers.0.ffn.w1.weight"].grad();
  const auto [u, s, vt] = torch::linalg_svd(g, /*full_matrices=*/false);
  std::vector<std::vector<Report::Json>> rows;
  const auto add = [&](const std::string& name, const torch::Tensor& x) {
    const torch::Tensor values = std::get<1>(torch::linalg_svd(x, /*full_matrices=*/false));
    rows.push_back({name});
    for (const int64_t i : {0, 7, 31, 55}) rows.back().push_back(values[i].item<double>());
    return std::pair{values[0].item<double>(), values[31].item<double>()};
  };
  add("gradient / its norm", g / g.norm());
  add("U Vᵀ, by the SVD", u.matmul(vt));
  const auto [largest, median] = add("five Newton-Schulz steps", experiments::orthogonalized(g));
  report.table("Singular values of the first gradient of a matrix [176, 64]", {"", "1st", "8th", "32nd", "56th"}, rows);
  report.claim_below("after the steps the largest singular value is", largest, 1.3);
  report.claim_above("and that in the middle", median, 0.6);
}

void show_grid(Report& report, const std::vector<Contender>& contenders, int64_t steps) {
  train::LineChart chart{.title = fmt::format("Loss after {} steps by learning rate", steps),
                         .x_label = "learning rate",
                         .y_label = "validation loss (nats per character)",
                         .log_x = true};
  std::vector<std::vector<Report::Json>> rows;
  int64_t at_an_edge = 0;
  for (const Contender& c : contenders) {
    chart.series.push_back({c.name, {}});
    for (size_t i = 0; i < c.rates.size(); ++i) {
      chart.series.back().points.push_back({c.rates[i], c.losses[i]});
      rows.push_back({c.name, fmt::format("{:g}", c.rates[i]), c.losses[i]});
    }
    at_an_edge += c.best == 0 || c.best + 1 == c.rates.size();
  }
  report.table("The grid, on the first seed", {"optimizer", "rate", "loss"}, rows);
  report.picture("rates.svg", chart);
  if (!report.short_form()) report.claim_equal("best rates that lie at an edge of their grid", at_an_edge, 0);
}

void switch_off(Report& report, const experiments::OptimizerTrials& trials, const Contender& sgd,
                const Contender& adamw, const Contender& muon) {
  experiments::IntervalChart chart{.title = "Without warm-up, without clipping",
                                   .subtitle = "loss minus that with both, paired by seed, with 95 % intervals",
                                   .x_label = "nats per character",
                                   .rows = {},
                                   .references = {{"both on", 0.0}}};
  std::vector<std::vector<Report::Json>> rows;
  for (const auto& [c, lr] : {std::pair{&sgd, sgd.best_rate()},
                              {&adamw, adamw.best_rate()},
                              {&adamw, adamw.rates[adamw.best + 1]},
                              {&muon, muon.best_rate()}}) {
    const std::string name = fmt::format("{} at {:g}", c->name, lr);
    const Doubles both = lr == c->best_rate() ? c->judged : trials.judge(*c, lr);
    rows.push_back({name + ", both", experiments::joined(both), {}});
    for (const auto& [off, warmup, clip] :
         {std::tuple{"no warm-up", false, true}, {"no clipping", true, false}, {"neither", false, false}}) {
      const Doubles losses = trials.judge(*c, lr, warmup, clip);
      const experiments::Interval change = experiments::paired_interval_or_difference(losses, both);
      rows.push_back({name + ", " + off, experiments::joined(losses), experiments::shown(change)});
      chart.rows.push_back({name + ", " + off, change});
      if (c == &adamw && lr == c->best_rate() && warmup) {
        report.claim_above("clipping helps AdamW at its best rate, by", experiments::differences(losses, both), 0.02);
      }
      if (c == &muon && !warmup && !clip) {
        report.claim_below("Muon needs neither warm-up nor clipping: they move its loss by",
                           experiments::sizes(experiments::differences(losses, both)), 0.05);
      }
    }
  }
  report.table("Warm-up and clipping", {"", "losses", "against both on"}, rows);
  report.picture("switches.svg", chart.svg());
}

void study(Report& report) {
  const experiments::Shakespeare text = experiments::load_shakespeare();
  train::TrainConfig setting = experiments::small_setting(text);
  if (report.short_form()) setting.steps = 40;
  setting.eval_every = setting.steps;
  show_orthogonalized(report, text, setting);

  std::vector<Contender> contenders{
      {"SGD", {.rule = Rule::Sgd, .momentum = 0.9}, {0.01, 0.03, 0.1, 0.3, 1.0}},
      {"Adam", {.rule = Rule::Adam}, {3e-4, 1e-3, 3e-3, 1e-2, 3e-2}},
      {"Adam + L2", {.rule = Rule::AdamL2, .weight_decay = 0.1}, {1e-3, 3e-3, 1e-2, 3e-2, 1e-1}},
      {"AdamW", {.rule = Rule::AdamW, .weight_decay = 0.1}, {3e-4, 1e-3, 3e-3, 1e-2, 3e-2}},
      {"Muon", {.rule = Rule::Muon}, {1e-3, 3e-3, 1e-2, 3e-2, 1e-1}}};
  if (report.short_form()) {
    for (Contender& c : contenders) c.rates = {c.rates[1], c.rates[2], c.rates[3]};
  }
  Contender &sgd = contenders[0], &adam = contenders[1], &l2 = contenders[2], &adamw = contenders[3],
            &muon = contenders[4];

  experiments::OptimizerTrials trials(report, text, setting);
  trials.choose_rates({&sgd, &adam, &l2, &adamw});
  trials.muons_adamw_rate = adamw.best_rate();
  trials.choose_rates({&muon});
  show_grid(report, contenders, setting.steps);

  for (Contender& c : contenders) c.judged = trials.judge(c, c.best_rate());
  std::vector<std::vector<Report::Json>> rows;
  for (const Contender& c : contenders) {
    rows.push_back({c.name, fmt::format("{:g}", c.best_rate()), experiments::joined(c.judged),
                    experiments::shown(experiments::paired_interval_or_difference(c.judged, adamw.judged))});
  }
  report.table("Each at its best rate, on other seeds", {"optimizer", "rate", "losses", "against AdamW"}, rows);
  report.claim_above("Muon beats AdamW by", experiments::differences(adamw.judged, muon.judged), 0.02);
  if (report.short_form()) return;
  report.claim_above("AdamW beats SGD by", experiments::differences(sgd.judged, adamw.judged), 0.1);
  report.claim_above("weight decay in the gradient costs Adam", experiments::differences(l2.judged, adam.judged), 0.3);
  report.claim_below("Adam and AdamW can't be told apart, losses differ by",
                     experiments::sizes(experiments::differences(adam.judged, adamw.judged)), 0.15);
  switch_off(report, trials, sgd, adamw, muon);
}

}  // namespace

int main(int argc, char** argv) { return experiments::run(argc, argv, "10_optimizers", study); }
