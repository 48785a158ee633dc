#include "experiments/03_debugging/own_mistakes.h"

#include <fmt/format.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>
#include <numbers>

#include "data/batches.h"
#include "experiments/common/broken.h"
#include "experiments/common/comparison.h"
#include "experiments/common/statistics.h"
#include "experiments/common/training.h"
#include "train/step/adamw.h"
#include "train/step/evaluate.h"

namespace folio::experiments {
namespace {

using Doubles = std::vector<double>;

// Returns the learning rate of a cosine schedule that falls from `highest` to a hundredth of it within `period` steps,
// then rises again, as PyTorch's CosineAnnealingLR does.
double cosine_rate(double highest, int64_t step, int64_t period) {
  const double lowest = highest / 100.0;
  const double angle = std::numbers::pi * static_cast<double>(step) / static_cast<double>(period);
  return lowest + (highest - lowest) * (1.0 + std::cos(angle)) / 2.0;
}

double near_zero(const torch::Tensor& numbers, double tolerance) {
  return 100.0 * (numbers.abs() <= tolerance).to(torch::kDouble).mean().item<double>();
}

// Mistake 6 in README.md: the notebook's show_grads() is meant to show gradients, but counts weights near 0. Compares
// the percentage of weights near 0 with the percentage of gradients that are 0.
void study_table_of_gradients(Report& report, const Shakespeare& text, const train::TrainConfig& config) {
  const data::BatchSampler batches(text.splits.train, config.batch_size, config.window, config.seed);
  const auto batch = train::to_tensors(batches.batch(0), torch::kCPU);
  Doubles weights, gradients;
  Report::Rows rows;
  for (const bool discarded : {true, false}) {
    nn::Llama model =
        seeded_llama(config.model, config.seed, discarded ? blocks_that_discard_attention() : ModelParts{});
    model->loss(batch.inputs_BT, batch.targets_BT).backward();
    const torch::Tensor wq = model->named_parameters()["layers.0.attention.wq.weight"];
    weights.push_back(near_zero(wq.detach(), 0.01));
    gradients.push_back(wq.grad().defined() ? near_zero(wq.grad(), 0.0) : 100.0);
    rows.push_back({discarded ? "attention discarded" : "attention added", weights.back(), gradients.back()});
  }
  report.table("6 Percent of the first layer's wq that is near 0",
               {"", "weights, within 0.01 (show_grads)", "gradients, exactly 0"}, rows);
  report.check_equal("6 shown as weights, the two models differ by", std::lround(1e6 * (weights[0] - weights[1])), 0);
  report.check_equal("6 gradients that are 0 where attention is discarded, percent", std::lround(gradients[0]), 100);
  report.check_below("6 and where it is added, percent", gradients[1], 1.0);
}

// Mistake 7 in README.md: the optimizer holds another model's parameters. Compares 50 training steps with and without
// the mistake.
void study_other_models_optimizer(Report& report, const Shakespeare& text, train::TrainConfig config) {
  config.steps = 50;
  nn::Llama other = seeded_llama(config.model, config.seed + 1);
  for (const torch::Tensor& p : other->parameters()) p.mutable_grad() = torch::zeros_like(p);
  Doubles moved;
  Report::Rows rows;
  for (const bool own : {false, true}) {
    nn::Llama model = seeded_llama(config.model, config.seed);
    train::AdamW adamw(own ? *model : *other, config);
    const Training run = train_model(model, text, config, [&](double lr) { adamw.step(lr); });
    const nn::Llama before = seeded_llama(config.model, config.seed);
    moved.push_back((model->parameters()[0] - before->parameters()[0]).detach().abs().max().item<double>());
    rows.push_back({own ? "the model's own parameters" : "another model's", run.validation.front().y,
                    run.validation_loss, moved.back()});
  }
  report.table("7 The optimizer holds",
               {"", "loss before", "loss after 50 steps", "largest change of an embedding's value"}, rows);
  report.check_equal("7 with another model's parameters, the embeddings change by", std::lround(1e9 * moved[0]), 0);
  report.check_above("7 with its own they change by", moved[1], 0.01);
}

// Mistake 8 in README.md: a schedule shorter than the training. Trains with three schedules. `share` is the
// fraction of all steps after which the cosine reaches its minimum; 0 means a constant learning rate.
void study_short_schedule(Report& report, const Shakespeare& text, train::TrainConfig config) {
  struct Schedule {
    std::string name;
    double share;
    Doubles losses{};
  };
  std::vector<Schedule> schedules{
      {"constant", 0.0}, {"cosine over all steps", 1.0}, {"cosine over 0.3 of the steps, and up again", 0.3}};
  const auto seeds = paired_seeds(report);
  config.eval_every = config.steps;
  for (Schedule& s : schedules) s.losses.resize(seeds.size());
  run_jobs(schedules.size() * seeds.size(), [&](size_t i) {
    Schedule& schedule = schedules[i / seeds.size()];
    train::TrainConfig its = config;
    its.seed = seeds[i % seeds.size()];
    nn::Llama model = seeded_llama(its.model, its.seed);
    train::AdamW adamw(*model, its);
    const auto period = std::lround(schedule.share * static_cast<double>(config.steps));
    const auto update = [&, step = int64_t{0}](double) mutable {
      adamw.step(period == 0 ? config.lr : cosine_rate(config.lr, step, period));
      ++step;
    };
    schedule.losses[i % seeds.size()] = train_model(model, text, its, update).validation_loss;
  });
  Report::Rows rows;
  for (const Schedule& s : schedules) {
    rows.push_back({s.name, mean_of(s.losses),
                    &s == &schedules[0] ? "" : shown(paired_interval(s.losses, schedules[0].losses)),
                    &s == &schedules[2] ? shown(paired_interval(s.losses, schedules[1].losses)) : ""});
  }
  report.table(fmt::format("8 Learning rates, mean loss of {} seeds", seeds.size()),
               {"", "loss", "against constant", "against the whole cosine"}, rows);
}

void study_rates(Report& report) {
  const auto rate = [](int64_t step) { return cosine_rate(1e-3, step, 300); };
  report.say(
      fmt::format("The tutorial's rate: {:.2e} at step 0, {:.2e} at 300, {:.2e} at 600, {:.2e} at 900, {:.2e} "
                  "at 1000\n",
                  rate(0), rate(300), rate(600), rate(900), rate(1000)));
  report.check_above("8 at step 600 of 1000 the tutorial's rate is again, of its highest", rate(600) / rate(0), 0.99);
}

}  // namespace

void study_own_mistakes(Report& report, const Shakespeare& text) {
  train::TrainConfig config = small_setting(text);
  config.seed = report.seed();
  study_table_of_gradients(report, text, config);
  study_other_models_optimizer(report, text, config);
  study_rates(report);
  if (!report.short_form()) study_short_schedule(report, text, config);
}

}  // namespace folio::experiments
