#include "experiments/24_experts/mixtures.h"

#include <fmt/format.h>
#include <torch/nn/utils/clip_grad.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <functional>
#include <memory>
#include <utility>

#include "data/batches.h"
#include "train/fused/parts.h"
#include "train/step/adamw.h"
#include "train/step/balance.h"
#include "train/step/evaluate.h"
#include "train/verify/observe.h"

namespace folio::experiments {
namespace {

// Creates Llama blocks, with a mixture of experts as feed-forward network if the configuration has experts.
class MixedParts : public nn::Parts {
 public:
  [[nodiscard]] nn::Block block(const core::ModelConfig& c, nn::RopeCache rope, int64_t layer) const override {
    core::ModelConfig plain = c;
    plain.family = core::Family::Llama;
    plain.n_experts = plain.experts_per_token = plain.expert_dim = 0;
    nn::BlockParts parts = block_parts(plain, std::move(rope), layer);
    if (c.n_experts > 0) parts.ffn = torch::nn::AnyModule(nn::Mixture(c, train::fused::expert_products(c)));
    return nn::Block(parts, options().dropout);
  }
};

// A model in training, with its optimizer and the balancing of its experts.
class Running {
 public:
  Running(const Method& method, const train::TrainConfig& config)
      : model(seeded_llama(method.model, config.seed, std::make_shared<MixedParts>())),
        method_(method),
        mixtures_(nn::mixtures_of(*model)),
        adamw_(*model, config) {}

  torch::Tensor objective(const torch::Tensor& loss) {
    loads_ = train::take_loads(mixtures_);
    const bool auxiliary = !loads_.empty() && method_.balance == train::Balance::Loss && method_.rate > 0.0;
    if (auxiliary) return loss + train::balance_loss(loads_) * method_.rate;
    if (method_.sequence_loss == 0.0) return loss;
    return loss + train::sequence_balance_loss(loads_, method_.model.experts_per_token) * method_.sequence_loss;
  }
  void update(double lr) {
    adamw_.step(lr);
    if (method_.balance != train::Balance::Bias || method_.rate == 0.0) return;
    for (size_t i = 0; i < mixtures_.size(); ++i) {
      train::move_selection_bias(mixtures_[i], loads_[i].chosen, method_.rate);
    }
  }
  // Returns the rows of the most loaded expert divided by the mean over experts, on the validation split; the maximum
  // over layers, or 0 without experts.
  double load(const Shakespeare& text, int64_t window) {
    static_cast<void>(train::take_loads(mixtures_));
    static_cast<void>(validation_loss(model, text, window));
    return train::largest_load(train::take_loads(mixtures_));
  }

  nn::Llama model;

 private:
  const Method& method_;
  std::vector<nn::Mixture> mixtures_;
  train::AdamW adamw_;
  train::Loads loads_;
};

train::TrainConfig config_for(train::TrainConfig setting, const Method& method, double lr, uint64_t seed,
                              int64_t steps) {
  setting.model = method.model;
  setting.lr = lr;
  setting.seed = seed;
  setting.steps = setting.eval_every = steps;
  return setting;
}

// Returns the process's CPU time in seconds, which other programs affect little. Measured training uses one thread.
double seconds_of_processor() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

// Runs the model on the validation split. For each batch and layer with experts, calls observe(layer, token ids [B, T],
// selected experts [B · T, K]).
void observe_routes(nn::Llama& model, const Shakespeare& text, int64_t window,
                    const std::function<void(size_t, const torch::Tensor&, const torch::Tensor&)>& observe) {
  const torch::NoGradGuard no_grad;
  model->eval();
  std::vector<nn::Mixture> mixtures = nn::mixtures_of(*model);
  if (mixtures.empty()) return;
  const auto tokens = text.splits.validation.first(kValidationTokens + 1);
  const data::Batches batches = data::consecutive_batches(tokens, window, {});
  for (uint64_t number = 0; number < batches.n; ++number) {
    const auto batch = train::to_tensors(batches.batch(number), torch::kCPU);
    size_t layer = 0;
    train::forward_observed(model, batch.inputs_BT, [&](const std::string& name, const torch::Tensor& value) {
      if (!name.ends_with(".ffn_norm")) return;
      observe(layer, batch.inputs_BT, mixtures[layer]->route(value.flatten(0, 1)).experts);
      ++layer;
    });
  }
}

// Returns the number of rows routed to a window's most loaded expert, divided by the mean over E experts and averaged
// over W windows. Row w of experts_WN has the selected experts of all positions of window w.
double mean_fullest(const torch::Tensor& experts_WN, int64_t E) {
  const torch::Tensor counts_WE =
      torch::zeros({experts_WN.size(0), E}).scatter_add(1, experts_WN, torch::ones(experts_WN.sizes()));
  return (counts_WE.amax(1) / counts_WE.mean(1)).mean().item<double>();
}

}  // namespace

Method dense(const train::TrainConfig& setting) { return {.name = "dense", .model = setting.model}; }

Method experts(const train::TrainConfig& setting, int64_t n, int64_t chosen, train::Balance balance, double rate) {
  Method method{
      .name = fmt::format("{} of {} experts", chosen, n), .model = setting.model, .balance = balance, .rate = rate};
  core::ModelConfig& m = method.model;
  m.family = balance == train::Balance::Bias ? core::Family::Dots1 : core::Family::Mixtral;
  m.n_experts = n;
  m.experts_per_token = chosen;
  m.expert_dim = m.hidden_dim / chosen;
  m.normalize_routes = chosen > 1;  // with one expert the normalized weight is always 1, and the router wouldn't learn
  return method;
}

Trained trained(const Shakespeare& text, const train::TrainConfig& setting, const Method& method, double lr,
                uint64_t seed, int64_t steps) {
  const train::TrainConfig config = config_for(setting, method, lr, seed, steps);
  Running running(method, config);
  const double loss = train_model(
                          running.model, text, config, [&](double rate) { running.update(rate); },
                          [&](const torch::Tensor& l) { return running.objective(l); })
                          .validation_loss;
  return {.loss = loss,
          .load = method.model.n_experts > 0 ? running.load(text, config.window) : 0.0,
          .model = running.model};
}

void choose_rates(const Report& report, const Shakespeare& text, const train::TrainConfig& setting,
                  std::vector<Method>& methods) {
  torch::set_num_threads(1);
  std::vector<double> middles;
  for (const Method& method : methods) middles.push_back(method.lr);
  const auto found = search_rates(middles, tuning_seeds(report), [&](size_t which, double lr, uint64_t seed) {
    return trained(text, setting, methods[which], lr, seed, setting.steps).loss;
  });
  for (size_t i = 0; i < methods.size(); ++i) {
    methods[i].search = found[i];
    methods[i].lr = found[i].best_rate();
    report.say(fmt::format("  {}: {}", methods[i].name, shown(found[i])));
  }
}

void measure_steps(const Report& report, const Shakespeare& text, const train::TrainConfig& setting,
                   std::vector<Method>& methods) {
  torch::set_num_threads(1);
  const int rounds = report.short_form() ? 1 : 9;
  const int64_t steps = report.short_form() ? 3 : 20;  // steps per round
  std::vector<std::unique_ptr<Running>> all;
  for (const Method& method : methods) {
    all.push_back(std::make_unique<Running>(method, config_for(setting, method, method.lr, report.seed(), steps)));
  }
  std::vector<std::vector<double>> seconds(methods.size());
  const data::BatchSampler batches(text.splits.train, setting.batch_size, setting.window, setting.seed);
  for (int round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < methods.size(); ++i) {
      Running& it = *all[i];
      const std::vector<torch::Tensor> parameters = it.model->parameters();
      const double begin = seconds_of_processor();
      for (int64_t step = 0; step < steps; ++step) {
        const auto batch = train::to_tensors(batches.batch(static_cast<uint64_t>(round * steps + step)), torch::kCPU);
        for (const torch::Tensor& p : parameters) p.mutable_grad() = torch::zeros_like(p);
        it.objective(it.model->loss(batch.inputs_BT, batch.targets_BT)).backward();
        torch::nn::utils::clip_grad_norm_(parameters, setting.clip);
        it.update(methods[i].lr);
      }
      seconds[i].push_back((seconds_of_processor() - begin) / static_cast<double>(steps));
    }
  }
  for (size_t i = 0; i < methods.size(); ++i) {
    std::ranges::sort(seconds[i]);
    methods[i].step_seconds = seconds[i][seconds[i].size() / 2];
    methods[i].steps_in_time = std::max<int64_t>(
        1, std::lround(static_cast<double>(setting.steps) * methods[0].step_seconds / methods[i].step_seconds));
  }
}

void judge(const Report& report, const Shakespeare& text, const train::TrainConfig& setting,
           std::vector<Method>& methods, bool in_time) {
  torch::set_num_threads(1);
  const std::vector<uint64_t> seeds = paired_seeds(report, 5);
  for (Method& method : methods) {
    for (auto* values : {&method.judged, &method.judged_in_time, &method.loads, &method.window_loads}) {
      values->resize(seeds.size());
    }
  }
  run_jobs((in_time ? 2 : 1) * methods.size() * seeds.size(), [&](size_t i) {
    const size_t run = i % (methods.size() * seeds.size());
    Method& method = methods[run / seeds.size()];
    const size_t s = run % seeds.size();
    if (i == run) {
      Trained result = trained(text, setting, method, method.lr, seeds[s], setting.steps);
      method.judged[s] = result.loss;
      method.loads[s] = result.load;
      method.window_loads[s] = window_load(result.model, text, setting.window);
    } else if (&method != &methods[0]) {
      method.judged_in_time[s] = trained(text, setting, method, method.lr, seeds[s], method.steps_in_time).loss;
    }
  });
  methods[0].judged_in_time = methods[0].judged;
}

double window_load(nn::Llama& model, const Shakespeare& text, int64_t window) {
  std::vector<double> sums(nn::mixtures_of(*model).size());
  int64_t n_windows = 0;
  observe_routes(
      model, text, window, [&](size_t layer, const torch::Tensor& inputs_BT, const torch::Tensor& experts_NK) {
        const int64_t B = inputs_BT.size(0);
        sums[layer] += mean_fullest(experts_NK.view({B, -1}), model->config().n_experts) * static_cast<double>(B);
        if (layer == 0) n_windows += B;
      });
  return n_windows > 0 ? *std::ranges::max_element(sums) / static_cast<double>(n_windows) : 0.0;
}

double random_window_load(int64_t window, int64_t n, int64_t chosen, uint64_t seed) {
  torch::manual_seed(seed);
  const torch::Tensor experts_WN = std::get<1>(torch::rand({10'000, window, n}).topk(chosen)).flatten(1);
  return mean_fullest(experts_WN, n);
}

std::vector<Choices> choices_of(nn::Llama& model, const Shakespeare& text, int64_t window) {
  const int64_t E = model->config().n_experts, V = text.vocab_size, K = model->config().experts_per_token;
  std::vector<torch::Tensor> counts(nn::mixtures_of(*model).size(), torch::zeros({E * V}, torch::kLong));
  observe_routes(model, text, window,
                 [&](size_t layer, const torch::Tensor& inputs_BT, const torch::Tensor& experts_NK) {
                   const torch::Tensor pairs = (experts_NK * V + inputs_BT.flatten().unsqueeze(-1)).flatten();
                   counts[layer] = counts[layer] + pairs.bincount({}, E * V);
                 });
  std::vector<Choices> choices;
  for (const torch::Tensor& count : counts) {
    const torch::Tensor table_EV = count.view({E, V}).to(torch::kDouble);
    const torch::Tensor of_character_1V = table_EV.sum(0, /*keepdim=*/true) / K;
    const torch::Tensor share_EV = (table_EV / of_character_1V.clamp_min(1.0)).contiguous();
    const torch::Tensor p_EV = table_EV / table_EV.sum();
    const torch::Tensor apart_EV = p_EV.sum(0, true) * p_EV.sum(1, true);
    const double* values = share_EV.data_ptr<double>();
    choices.push_back(
        {.share = {values, values + E * V},
         .bits = torch::special_xlogy(p_EV, p_EV / apart_EV.clamp_min(1e-300)).sum().item<double>() / std::log(2.0),
         .rows = of_character_1V.sum().to(torch::kLong).item<int64_t>(),
         .taken = count.sum().item<int64_t>()});
  }
  return choices;
}

}  // namespace folio::experiments
