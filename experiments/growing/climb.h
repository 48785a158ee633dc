// The list of rungs, and the function that trains a rung's model once per seed.
#pragma once

#include <fmt/format.h>

#include <mutex>

#include "experiments/common/comparison.h"
#include "experiments/growing/11_adamw.h"
#include "experiments/growing/head_pictures.h"

namespace folio::growing {

using experiments::Report;

struct Rung {
  int number;
  std::string name;
  std::function<std::shared_ptr<Model>()> make;  // returns a model initialized with LibTorch's random number generator
  double rate = 0.5;                             // learning rate of gradient descent; rung 11 uses AdamW
};

inline std::vector<Rung> rungs(int64_t V) {
  const int64_t D = 64, H = 4, F = 176, L = 4;
  const auto deep = [=] { return std::make_shared<Deep>(V, D, H, F, L); };
  return {{2, "bigram", [=] { return std::make_shared<Bigram>(V); }, 30.0},
          {3, "averaging", [=] { return std::make_shared<Averaging>(V, D); }},
          {4, "one head", [=] { return std::make_shared<OneHead>(V, D); }},
          {5, "four heads", [=] { return std::make_shared<SeveralHeads>(V, D, H); }},
          {6, "residual", [=] { return std::make_shared<Residual>(V, D, H); }},
          {7, "norm", [=] { return std::make_shared<Normed>(V, D, std::make_shared<Heads>(D, H)); }},
          {8, "RoPE", [=] { return std::make_shared<Normed>(V, D, std::make_shared<RotaryHeads>(D, H)); }},
          {9, "SwiGLU", [=] { return std::make_shared<OneBlock>(V, D, H, F); }},
          {10, "four blocks", deep},
          {11, "AdamW", deep}};
}

// Returns a new model whose initialization depends only on the seed. Thread-safe.
inline std::shared_ptr<Model> seeded(const std::function<std::shared_ptr<Model>()>& make, uint64_t seed) {
  static std::mutex generator;  // guards LibTorch's global random number generator
  const std::lock_guard lock(generator);
  torch::manual_seed(seed);
  return make();
}

// A rung's results. The vectors have an entry per seed.
struct Climbed {
  int64_t parameters = 0;
  std::vector<Training> trainings{};
  std::vector<double> losses{};
  std::string sample{};      // output of the first seed's model
  double future_seen = 0.0;  // largest change of earlier positions' logits when the last character changes; 0: causal
};

// Returns the largest change of the logits at earlier positions when the last character changes: 0 if no position
// depends on a later one.
inline double future_seen(Model& model, Text text, int64_t T) {
  const torch::NoGradGuard no_grad;
  const Tensor a_1T = torch::tensor(std::vector<int64_t>(text.begin(), text.begin() + T)).unsqueeze(0);
  const Tensor b_1T = a_1T.clone();
  b_1T[0][-1] = (b_1T[0][-1] + 1) % 65;
  return (model.forward(a_1T) - model.forward(b_1T)).narrow(1, 0, T - 1).abs().max().item<double>();
}

inline Climbed climb(Report& report, const Rung& rung, const experiments::Shakespeare& text, const Setting& setting,
                     Text validation, const std::vector<uint64_t>& seeds) {
  Climbed climbed;
  climbed.trainings.resize(seeds.size());
  climbed.losses.resize(seeds.size());
  std::mutex one_at_a_time;  // guards `climbed` and `report`
  experiments::run_jobs(seeds.size(), [&](size_t i) {
    const std::shared_ptr<Model> model = seeded(rung.make, seeds[i]);
    Setting s = setting;
    s.seed = seeds[i];
    const Forward forward = [&](const Tensor& tokens_BT) { return model->forward(tokens_BT); };
    const auto parameters = model->parameters();
    Training training = rung.number == 11 ? train_with_adamw(forward, parameters, text.splits.train, validation, s)
                                          : train_model(forward, parameters, text.splits.train, validation, s,
                                                        [&](int64_t) { descend(parameters, rung.rate); });
    const std::lock_guard lock(one_at_a_time);
    climbed.losses[i] = training.validation.back();
    climbed.trainings[i] = std::move(training);
    report.say(fmt::format("  {}, seed {}: {:.3f}", rung.name, seeds[i], climbed.losses[i]));
    if (i > 0) return;
    for (const Tensor& p : parameters) climbed.parameters += p.numel();
    climbed.sample = text.tokenizer.decode(sample(forward, text.tokenizer.encode("\n"), 240, s.T, seeds[i]));
    climbed.future_seen = future_seen(*model, validation, s.T);
    draw_heads(report, rung.number, rung.name, *model, text, validation.first(static_cast<size_t>(s.T)));
  });
  return climbed;
}

}  // namespace folio::growing
