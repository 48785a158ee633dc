#include "experiments/12_scaling/scaling_grid.h"

#include <fmt/format.h>

#include <cmath>
#include <mutex>

#include "experiments/common/comparison.h"
#include "experiments/common/training.h"
#include "experiments/common/variants.h"

namespace folio::experiments {
namespace {

train::TrainConfig setting_of(const Shakespeare& text, int64_t width, int64_t steps) {
  train::TrainConfig config = small_setting(text);
  config.model.dim = width;
  config.model.hidden_dim = 11 * width / 4;  // 11/4 of the width, as in small_setting()
  config.model.head_dim = 16;
  config.model.n_heads = config.model.n_kv_heads = width / config.model.head_dim;
  config.steps = config.eval_every = steps;
  // Each run decays its learning rate to a tenth of the peak: without the decay, the final loss would be higher.
  config.schedule = train::ScheduleKind::Cosine;
  config.lr = 3e-3 * std::sqrt(64.0 / static_cast<double>(width));
  config.min_lr = config.lr / 10.0;
  return config;
}

double parameters_beside_the_embedding(nn::LlamaImpl& model) {
  int64_t count = 0;
  for (const auto& p : model.named_parameters()) {
    if (p.key().starts_with("layers.") || p.key().starts_with("norm.")) count += p.value().numel();
  }
  return static_cast<double>(count);
}

}  // namespace

void ScalingGrid::train(const Report& report) {
  const Shakespeare text = load_shakespeare();
  shape = small_setting(text).model;
  const std::vector<uint64_t> seeds = report.seeds();
  runs.assign(widths.size() * steps.size(), {.losses = std::vector<double>(seeds.size())});
  std::mutex one_at_a_time;  // guards the results
  run_jobs(runs.size() * seeds.size(), [&](size_t i) {
    const size_t s = i % seeds.size(), cell = i / seeds.size();
    train::TrainConfig config = setting_of(text, widths[cell / steps.size()], steps[cell % steps.size()]);
    config.seed = seeds[s];
    // By default, narrow models would have smaller initial outputs.
    nn::Llama model = seeded_llama(config.model, config.seed, {}, draw_feed_forwards_by_width);
    const double loss = train_model(model, text, config).validation_loss;
    const std::lock_guard lock(one_at_a_time);
    ScalingRuns& run = runs[cell];
    run.tokens = static_cast<double>(config.steps * config.batch_size * config.window);
    run.parameters = parameters_beside_the_embedding(*model);
    run.losses[s] = loss;
    report.say(fmt::format("  width {}, {} steps, seed {}: {:.4f}", config.model.dim, config.steps, config.seed, loss));
  });
}

Operations ScalingGrid::operations_per_token(double parameters) const {
  // Solve N = (4 + 3 · 11/4) layers dim² + (2 layers + 1) dim for dim. The first term counts the attention and
  // feed-forward matrices, the second the norms.
  const auto layers = static_cast<double>(shape.n_layers);
  const double a = (4.0 + 3.0 * 11.0 / 4.0) * layers, b = 2.0 * layers + 1.0;
  const double dim = (std::sqrt(b * b + 4.0 * a * parameters) - b) / (2.0 * a);
  return {.matrices = 6.0 * parameters,
          .head = 6.0 * static_cast<double>(shape.vocab_size) * dim,
          .attention = 12.0 * layers * static_cast<double>(shape.context_length) * dim};
}

}  // namespace folio::experiments
