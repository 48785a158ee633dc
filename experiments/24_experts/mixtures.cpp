#include "experiments/24_experts/mixtures.h"

#include <fmt/format.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
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
class Balanced {
 public:
  Balanced(const Method& method, const train::TrainConfig& config)
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

  nn::Llama model;

 private:
  const Method& method_;
  std::vector<nn::Mixture> mixtures_;
  train::AdamW adamw_;
  train::Loads loads_;
};

Running start(const train::TrainConfig& setting, const Method& method, double lr, uint64_t seed, int64_t steps) {
  train::TrainConfig config = config_of_run(setting, lr, seed, steps);
  config.model = method.model;
  const auto it = std::make_shared<Balanced>(method, config);
  return {it->model, config, [it](double lr) { it->update(lr); },
          [it](const torch::Tensor& loss) { return it->objective(loss); }};
}

// Returns the rows of the most loaded expert divided by the mean over experts, on the validation split; the maximum
// over layers.
double load_of(nn::Llama& model, const Shakespeare& text, int64_t window) {
  std::vector<nn::Mixture> mixtures = nn::mixtures_of(*model);
  static_cast<void>(train::take_loads(mixtures));
  static_cast<void>(validation_loss(model, text, window));
  return train::largest_load(train::take_loads(mixtures));
}

// Runs the model on the validation split. For each batch and layer with experts, calls observe(layer, token ids [B, T],
// selected experts [B · T, K]).
void observe_routes(nn::Llama& model, const Shakespeare& text, int64_t window,
                    const std::function<void(size_t, const torch::Tensor&, const torch::Tensor&)>& observe) {
  const torch::NoGradGuard no_grad;
  model->eval();
  std::vector<nn::Mixture> mixtures = nn::mixtures_of(*model);
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

// Returns Method::window_loads of one model.
double window_load(nn::Llama& model, const Shakespeare& text, int64_t window) {
  std::vector<double> sums(nn::mixtures_of(*model).size());
  int64_t n_windows = 0;
  observe_routes(
      model, text, window, [&](size_t layer, const torch::Tensor& inputs_BT, const torch::Tensor& experts_NK) {
        const int64_t B = inputs_BT.size(0);
        sums[layer] += mean_fullest(experts_NK.view({B, -1}), model->config().n_experts) * static_cast<double>(B);
        if (layer == 0) n_windows += B;
      });
  return *std::ranges::max_element(sums) / static_cast<double>(n_windows);
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

void compare(const Report& report, const Shakespeare& text, const train::TrainConfig& setting,
             std::vector<Method>& methods) {
  compare(report, text, setting, methods, paired_seeds(report, 5), report.short_form() ? 3 : 20,
          [&](const Method& m, double lr, uint64_t seed, int64_t steps) { return start(setting, m, lr, seed, steps); });
}

void measure_loads(const Report& report, const Shakespeare& text, const train::TrainConfig& setting,
                   std::vector<Method>& methods) {
  const std::vector<uint64_t> seeds = paired_seeds(report, 5);
  for (Method& method : methods) {
    for (auto* values : {&method.judged, &method.loads, &method.window_loads}) values->resize(seeds.size());
  }
  run_jobs(methods.size() * seeds.size(), [&](size_t i) {
    Method& method = methods[i / seeds.size()];
    const size_t s = i % seeds.size();
    Running running = start(setting, method, method.lr, seeds[s], setting.steps);
    method.judged[s] = running.loss(text);
    method.loads[s] = load_of(running.model, text, setting.window);
    method.window_loads[s] = window_load(running.model, text, setting.window);
  });
}

double random_window_load(int64_t window, int64_t n, int64_t chosen, uint64_t seed) {
  torch::manual_seed(seed);
  const torch::Tensor experts_WN = std::get<1>(torch::rand({10'000, window, n}).topk(chosen)).flatten(1);
  return mean_fullest(experts_WN, n);
}

nn::Llama trained(const Shakespeare& text, const train::TrainConfig& setting, const Method& method, uint64_t seed) {
  Running running = start(setting, method, method.lr, seed, setting.steps);
  static_cast<void>(running.loss(text));
  return running.model;
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
