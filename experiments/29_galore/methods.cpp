#include "experiments/29_galore/methods.h"

#include <fmt/format.h>
#include <torch/nn/utils/clip_grad.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <memory>
#include <mutex>
#include <utility>

#include "data/batches.h"
#include "train/lora/lora.h"
#include "train/step/adamw.h"
#include "train/step/evaluate.h"
#include "train/step/optimizer.h"

namespace folio::experiments {
namespace {

train::TrainConfig config_for(const Task& task, const Method& method, double lr, uint64_t seed, int64_t steps) {
  train::TrainConfig c = task.setting;
  c.optimizer = method.optimizer;
  c.rank = std::max<int64_t>(1, method.rank);
  c.galore_every = method.every;
  c.lr = lr;
  c.seed = seed;
  c.steps = steps;
  c.eval_every = steps;
  return c;
}

std::vector<torch::Tensor> trained_parameters(const nn::Llama& model) {
  std::vector<torch::Tensor> trained;
  for (const torch::Tensor& p : model->parameters()) {
    if (p.requires_grad()) trained.push_back(p);
  }
  return trained;
}

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

// Returns the process's CPU time in seconds, which hardly depends on other programs. The measured steps use one thread.
double seconds_of_processor() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

}  // namespace

nn::Llama model_for(const Task& task, const Method& method, uint64_t seed) {
  static std::mutex generator;  // guards LibTorch's global generator during initialization
  const std::lock_guard lock(generator);
  const nn::PartOptions with_adapters{.linears = std::make_shared<train::lora::LoraLinears>()};
  nn::Llama model = seeded_llama(task.setting.model, seed, std::make_shared<nn::Parts>(with_adapters));
  if (task.start != nullptr) copy_parameters(*task.start, model);
  if (method.lora_rank > 0) {
    for (torch::Tensor& p : model->parameters()) p.set_requires_grad(false);
    train::lora::add_lora(model, {.rank = method.lora_rank,
                                  .alpha = 2.0 * static_cast<double>(method.lora_rank),
                                  .targets = train::lora::lora_targets("all"),
                                  .base = {}});
  }
  return model;
}

double loss_after(const Task& task, const Method& method, double lr, uint64_t seed, int64_t steps, nn::Llama* model) {
  nn::Llama own = model_for(task, method, seed);
  const train::TrainConfig config = config_for(task, method, lr, seed, steps);
  const auto optimizer = optimizer_for(own, config, method);
  const double loss =
      train_model(own, task.text, config, [&](double rate) { optimizer->step(rate, 1.0); }).validation_loss;
  if (model != nullptr) *model = own;
  return loss;
}

void choose_rates(const Report& report, const Task& task, std::vector<Method>& methods) {
  torch::set_num_threads(1);
  std::vector<double> middles;
  for (const Method& method : methods) middles.push_back(method.middle);
  const auto found = search_rates(middles, tuning_seeds(report), [&](size_t which, double rate, uint64_t seed) {
    return loss_after(task, methods[which], rate, seed, task.setting.steps);
  });
  for (size_t i = 0; i < methods.size(); ++i) {
    methods[i].search = found[i];
    report.say(fmt::format("  {}: {}", methods[i].name, shown(found[i])));
  }
}

void measure_steps(const Report& report, const Task& task, std::vector<Method>& methods) {
  torch::set_num_threads(1);
  const int rounds = report.short_form() ? 1 : 9;
  const int64_t steps = report.short_form() ? 5 : 50;  // steps per round; 50 include one subspace update
  struct Running {
    nn::Llama model;
    std::unique_ptr<train::Optimizer> optimizer;
    std::vector<torch::Tensor> parameters;
    std::vector<double> seconds{};
  };
  std::vector<Running> all;
  for (Method& method : methods) {
    nn::Llama model = model_for(task, method, report.seed());
    auto optimizer =
        optimizer_for(model, config_for(task, method, method.search.best_rate(), report.seed(), steps), method);
    for (const auto& state : optimizer->state()) method.state_bytes += static_cast<int64_t>(state.tensor.nbytes());
    all.push_back({model, std::move(optimizer), trained_parameters(model)});
    for (const torch::Tensor& p : all.back().parameters) method.trained += p.numel();
  }
  const train::TrainConfig& c = task.setting;
  const data::BatchSampler batches(task.text.splits.train, c.batch_size, c.window, c.seed);
  for (int round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < methods.size(); ++i) {
      Running& it = all[i];
      const double begin = seconds_of_processor();
      for (int64_t step = 0; step < steps; ++step) {
        const auto batch = train::to_tensors(batches.batch(static_cast<uint64_t>(round * steps + step)), torch::kCPU);
        for (const torch::Tensor& p : it.parameters) p.mutable_grad() = torch::zeros_like(p);
        it.model->loss(batch.inputs_BT, batch.targets_BT).backward();
        torch::nn::utils::clip_grad_norm_(it.parameters, c.clip);
        it.optimizer->step(methods[i].search.best_rate(), 1.0);
      }
      it.seconds.push_back((seconds_of_processor() - begin) / static_cast<double>(steps));
    }
  }
  for (size_t i = 0; i < methods.size(); ++i) {
    std::ranges::sort(all[i].seconds);
    methods[i].step_seconds = all[i].seconds[all[i].seconds.size() / 2];
    methods[i].steps_in_time = std::max<int64_t>(
        1, std::lround(static_cast<double>(c.steps) * methods[0].step_seconds / methods[i].step_seconds));
  }
}

void judge(const Report& report, const Task& task, std::vector<Method>& methods) {
  torch::set_num_threads(1);
  const std::vector<uint64_t> seeds = paired_seeds(report);
  for (Method& method : methods) {
    method.judged.resize(seeds.size());
    method.judged_in_time.resize(seeds.size());
  }
  run_jobs(2 * methods.size() * seeds.size(), [&](size_t i) {
    const bool in_time = i % 2 == 1;
    Method& method = methods[i / 2 / seeds.size()];
    const size_t s = i / 2 % seeds.size();
    if (in_time && &method == &methods[0]) return;
    (in_time ? method.judged_in_time : method.judged)[s] = loss_after(
        task, method, method.search.best_rate(), seeds[s], in_time ? method.steps_in_time : task.setting.steps);
  });
  methods[0].judged_in_time = methods[0].judged;
}

void show(Report& report, const std::string& title, const std::vector<Method>& methods, int64_t steps) {
  Report::Rows rates, rows;
  for (const Method& method : methods) {
    const bool first = &method == &methods[0];
    const auto against = [&](const std::vector<double>& losses) {
      return first ? Report::Json() : Report::Json(shown(paired_interval(losses, methods[0].judged)));
    };
    rates.push_back({method.name, shown(method.search)});
    report.value(title + ": " + method.name + " against AdamW", mean_of(method.judged) - mean_of(methods[0].judged));
    rows.push_back({method.name, fmt::format("{:g}", method.search.best_rate()), method.trained, method.state_bytes,
                    mean_of(method.judged), against(method.judged), 1e3 * method.step_seconds, method.steps_in_time,
                    mean_of(method.judged_in_time), against(method.judged_in_time)});
  }
  report.table(title + ": loss by learning rate, mean of the seeds on which it is chosen", {"", "loss"}, rates);
  report.table(
      fmt::format("{}, after {} steps and in the time of {}'s; {}", title, steps, methods[0].name,
                  count_of_intervals(2 * (methods.size() - 1))),
      {"", "rate", "trained", "state, bytes", "loss", "against", "ms a step", "steps in that time", "loss", "against"},
      rows);
}

}  // namespace folio::experiments
