// Study: which optimizer reaches the lowest loss in 300 steps if each uses its best learning rate, and how much do
// warm-up and clipping help? The results are explained in README.md.
#include <fmt/format.h>
#include <torch/types.h>

#include <span>
#include <tuple>
#include <utility>

#include "data/batches.h"
#include "experiments/10_optimizers/gradient_sizes.h"
#include "experiments/10_optimizers/optimizer_trials.h"
#include "experiments/common/comparison.h"
#include "experiments/common/interval_chart.h"
#include "train/step/evaluate.h"
#include "train/step/muon.h"

namespace folio::experiments {
namespace {

// Compares two ways to compute Muon's update U Vᵀ of a gradient G = U S Vᵀ: by SVD and by Newton-Schulz iteration.
void show_orthogonalized(Report& report, const Shakespeare& text, const train::TrainConfig& setting) {
  nn::Llama model = seeded_llama(setting.model, report.seed());
  const data::BatchSampler batches(text.splits.train, setting.batch_size, setting.window, report.seed());
  const auto batch = train::to_tensors(batches.batch(0), torch::kCPU);
  model->loss(batch.inputs_BT, batch.targets_BT).backward();
  const torch::Tensor g = model->named_parameters()["layers.0.ffn.w1.weight"].grad();
  const auto [u, s, vt] = torch::linalg_svd(g, /*full_matrices=*/false);
  Report::Rows rows;
  const auto add = [&](const std::string& name, const torch::Tensor& x) {
    const torch::Tensor values = std::get<1>(torch::linalg_svd(x, /*full_matrices=*/false));
    rows.push_back({name});
    for (const int64_t i : {0, 7, 31, 55}) rows.back().push_back(values[i].item<double>());
    return std::pair{values[0].item<double>(), values[31].item<double>()};
  };
  add("gradient / its norm", g / g.norm());
  add("U Vᵀ, by the SVD", u.matmul(vt));
  const auto [largest, median] = add("five Newton-Schulz steps", train::orthogonalized(g));
  report.table("Singular values of the first gradient of a matrix [176, 64]", {"", "1st", "8th", "32nd", "56th"}, rows);
  report.check_below("after the steps the largest singular value is", largest, 1.3);
  report.check_above("and that in the middle", median, 0.6);
}

void show_gradient_sizes(Report& report, const Shakespeare& text, train::TrainConfig setting, double lr) {
  setting.lr = lr;
  setting.seed = report.seed();
  const auto sizes = gradient_sizes(text, setting);
  Report::Rows rows;
  for (const auto& size : sizes) {
    const bool of_embedding = size.name.find("embedding") != std::string::npos;
    rows.push_back(
        {size.name, fmt::format("{:.1e}", size.rms()),
         of_embedding ? Report::Json(fmt::format("{:.0f} %", 100.0 * size.share_of_zeros())) : Report::Json()});
  }
  report.table("Gradients in training by AdamW", {"of", "root mean square", "rows that are 0"}, rows);
  report.check_below("tied, the rows of rare characters without a gradient are", sizes[0].share_of_zeros(), 0.01);
  report.check_above("with an output of its own, they are", sizes[sizes.size() - 2].share_of_zeros(), 0.5);
}

void show_rates(Report& report, const std::vector<Contender>& contenders, int64_t steps) {
  train::LineChart chart{.title = fmt::format("Loss after {} steps by learning rate", steps),
                         .x_label = "learning rate",
                         .y_label = "validation loss (nats per character)",
                         .log_x = true};
  Report::Rows rows;
  for (const Contender& c : contenders) {
    chart.series.push_back({c.name, {}});
    for (size_t i = 0; i < c.search.rates.size(); ++i) {
      chart.series.back().points.push_back({c.search.rates[i], c.search.losses[i]});
    }
    rows.push_back({c.name, shown(c.search)});
  }
  report.table("Loss by learning rate, mean of the seeds on which it is chosen", {"optimizer", "loss"}, rows);
  report.picture("rates.svg", chart);
}

// Runs AdamW and Muon at their best rates without warm-up, without clipping, and without both.
void switch_off(Report& report, const OptimizerTrials& trials, const std::vector<const Contender*>& contenders) {
  IntervalChart chart{.title = "Without warm-up, without clipping",
                      .subtitle = "loss minus that with both, paired by seed, with 95 % intervals",
                      .x_label = "nats per character",
                      .rows = {},
                      .references = {{"both on", 0.0}}};
  std::vector<Trial> all;
  for (const Contender* c : contenders) {
    for (const auto& [warmup, clip] : {std::pair{false, true}, {true, false}, {false, false}}) {
      all.push_back({c, c->search.best_rate(), warmup, clip});
    }
  }
  const auto losses = trials.judge(all);
  Report::Rows rows;
  for (size_t i = 0; i < all.size(); ++i) {
    const Trial& t = all[i];
    const auto change = paired_interval(losses[i], t.contender->judged);
    const std::string name = fmt::format("{} at {:g}, {}", t.contender->name, t.lr,
                                         t.clip     ? "no warm-up"
                                         : t.warmup ? "no clipping"
                                                    : "neither");
    rows.push_back({name, mean_of(losses[i]), shown(change)});
    report.value(name + ", against both on", change.mean);
    chart.rows.push_back({name, change});
  }
  report.table("Warm-up and clipping; " + count_of_intervals(chart.rows.size()), {"", "loss", "against both on"}, rows);
  report.picture("switches.svg", chart);
}

// Runs Adam with L2 regularization instead of decoupled weight decay, for several coefficients, each at its best rate.
void show_l2(Report& report, const OptimizerTrials& trials, const Contender& l2, const Contender& adam,
             const Contender& adamw) {
  std::vector<Contender> weaker;
  for (const double decay : {1e-2, 1e-3, 1e-4}) {
    weaker.push_back({fmt::format("Adam + L2, {:g}", decay), {.rule = Rule::AdamL2, .weight_decay = decay}, 3e-3});
  }
  trials.run(weaker);
  Report::Rows rows, rate_rows;
  const auto add = [&](const Contender& c) {
    const auto against_adam = paired_interval(c.judged, adam.judged);
    rows.push_back({c.name, fmt::format("{:g}", c.search.best_rate()), mean_of(c.judged), shown(against_adam),
                    shown(paired_interval(c.judged, adamw.judged))});
    report.value(c.name + ", against Adam", against_adam.mean);
    rate_rows.push_back({c.name, shown(c.search)});
  };
  add(l2);
  for (const Contender& c : weaker) add(c);
  report.table("L2 with less decay, by learning rate", {"optimizer", "loss"}, rate_rows);
  report.table("L2 with less decay; " + count_of_intervals(2 * rows.size()),
               {"optimizer", "rate", "loss", "against Adam", "against AdamW"}, rows);
}

void study(Report& report) {
  const Shakespeare text = load_shakespeare();
  train::TrainConfig setting = small_setting(text);
  if (report.short_form()) setting.steps = 10;
  setting.eval_every = setting.steps;
  show_orthogonalized(report, text, setting);

  std::vector<Contender> contenders{{"SGD", {.rule = Rule::Sgd, .momentum = 0.9}, 0.1},
                                    {"SGD, scaled", {.rule = Rule::Scaled, .momentum = 0.9}, 3e-3},
                                    {"Adam", {.rule = Rule::Adam}, 3e-3},
                                    {"Adam + L2, 0.1", {.rule = Rule::AdamL2, .weight_decay = 0.1}, 1e-2},
                                    {"AdamW", {.rule = Rule::AdamW, .weight_decay = 0.1}, 3e-3},
                                    {"Muon", {.rule = Rule::Muon}, 1e-2}};
  const Contender &sgd = contenders[0], &scaled = contenders[1], &adam = contenders[2], &l2 = contenders[3],
                  &adamw = contenders[4], &muon = contenders[5];

  OptimizerTrials trials(report, text, setting);
  trials.run(std::span(contenders).first(5));  // all except Muon
  trials.muons_adamw_rate = adamw.search.best_rate();
  trials.run(std::span(contenders).last(1));
  show_rates(report, contenders, setting.steps);

  Report::Rows rows;
  for (const Contender& c : contenders) {
    const auto against_adamw = paired_interval(c.judged, adamw.judged);
    report.value(c.name + ", against AdamW", against_adamw.mean);
    rows.push_back({c.name, fmt::format("{:g}", c.search.best_rate()), mean_of(c.judged),
                    &c == &adamw ? Report::Json() : Report::Json(shown(against_adamw))});
  }
  report.table("Each at its best rate; " + count_of_intervals(rows.size() - 1),
               {"optimizer", "rate", "loss", "against AdamW"}, rows);
  show_gradient_sizes(report, text, setting, adamw.search.best_rate());
  if (report.short_form()) return;
  report.check_above("Muon beats AdamW by", paired_interval(adamw.judged, muon.judged), 0.02);
  report.check_above("AdamW beats SGD by", paired_interval(sgd.judged, adamw.judged), 0.1);
  report.check_above("weight decay in the gradient costs Adam", paired_interval(l2.judged, adam.judged), 0.3);
  const auto scaling_gains = paired_interval(sgd.judged, scaled.judged);
  report.check_below("scaling each matrix gains SGD", scaling_gains, 0.1);
  report.value("scaling each matrix gains SGD, mean", scaling_gains.mean);
  show_l2(report, trials, l2, adam, adamw);
  switch_off(report, trials, {&adamw, &muon});
}

}  // namespace
}  // namespace folio::experiments

int main(int argc, char** argv) {
  return folio::experiments::run(argc, argv, "10_optimizers", folio::experiments::study);
}
