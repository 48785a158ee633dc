#include "experiments/29_galore/methods.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "train/lora/lora.h"
#include "train/step/adamw.h"
#include "train/step/optimizer.h"

namespace folio::experiments {
namespace {

// AdamW with a separate learning rate for the blocks' matrices.
class TwoRates : public train::AdamW {
 public:
  TwoRates(const train::Parameters& parameters, const train::TrainConfig& config, double scale)
      : AdamW(parameters.filtered(/*matrices_of_blocks=*/false), config),
        scale_(scale),
        matrices_(parameters.filtered(/*matrices_of_blocks=*/true), config) {
    state_.insert(state_.end(), matrices_.state().begin(), matrices_.state().end());
  }

  void step(double lr, double gradient_scale) override {
    matrices_.set_steps(steps_);
    matrices_.step(scale_ * lr, gradient_scale);
    AdamW::step(lr, gradient_scale);
  }

 private:
  double scale_;
  train::AdamW matrices_;
};

std::unique_ptr<train::Optimizer> optimizer_for(const nn::Llama& model, const train::TrainConfig& config,
                                                const Method& method) {
  if (method.quarter) return std::make_unique<TwoRates>(*model, config, config.galore_scale);
  return train::make_optimizer(*model, config);
}

}  // namespace

nn::Llama model_for(const Task& task, const Method& method, uint64_t seed) {
  const nn::PartOptions with_adapters{.linears = std::make_shared<train::lora::LoraLinears>()};
  return seeded_llama(task.setting.model, seed, std::make_shared<nn::Parts>(with_adapters), [&](nn::Llama& model) {
    if (task.start != nullptr) copy_parameters(*task.start, model);
    if (method.lora_rank == 0) return;
    for (torch::Tensor& p : model->parameters()) p.set_requires_grad(false);
    train::lora::add_lora(model, {.rank = method.lora_rank,
                                  .alpha = 2.0 * static_cast<double>(method.lora_rank),
                                  .targets = train::lora::lora_targets("all"),
                                  .base = {}});
  });
}

Running start(const Task& task, const Method& method, double lr, uint64_t seed, int64_t steps) {
  train::TrainConfig config = config_of_run(task.setting, lr, seed, steps);
  config.optimizer = method.optimizer;
  config.rank = std::max<int64_t>(1, method.rank);
  config.galore_every = method.every;
  nn::Llama model = model_for(task, method, seed);
  const std::shared_ptr<train::Optimizer> optimizer = optimizer_for(model, config, method);
  return {model, config, [optimizer](double rate) { optimizer->step(rate, 1.0); }};
}

void compare(const Report& report, const Task& task, std::vector<Method>& methods) {
  const int64_t steps_per_round = report.short_form() ? 5 : 50;  // 50 include one subspace update
  compare(report, task.text, task.setting, methods, paired_seeds(report), steps_per_round,
          [&](const Method& m, double lr, uint64_t seed, int64_t steps) { return start(task, m, lr, seed, steps); });
  for (Method& method : methods) {
    const Running running = start(task, method, method.lr, report.seed(), steps_per_round);
    for (const torch::Tensor& p : running.model->parameters()) method.trained += p.requires_grad() ? p.numel() : 0;
    const auto optimizer = optimizer_for(running.model, running.config, method);
    for (const auto& state : optimizer->state()) method.state_bytes += static_cast<int64_t>(state.tensor.nbytes());
  }
}

void show(Report& report, const std::string& title, const std::vector<Method>& methods, int64_t steps) {
  Report::Rows rates, rows;
  for (const Method& method : methods) {
    rates.push_back({method.name, shown(method.search)});
    report.value(title + ": " + method.name + " against AdamW", mean_of(method.judged) - mean_of(methods[0].judged));
    rows.push_back({method.name, fmt::format("{:g}", method.lr), method.trained, method.state_bytes});
    for (Report::Json& cell : result_cells(methods, method)) rows.back().push_back(std::move(cell));
  }
  report.table(title + ": loss by learning rate, mean of the seeds on which it is chosen", {"", "loss"}, rates);
  report.table(
      fmt::format("{}, after {} steps and in the time of {}'s; {}", title, steps, methods[0].name,
                  count_of_intervals(2 * (methods.size() - 1))),
      {"", "rate", "trained", "state, bytes", "loss", "against", "ms a step", "steps in that time", "loss", "against"},
      rows);
}

}  // namespace folio::experiments
