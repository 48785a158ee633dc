// Additional training runs quoted in README.md: more steps, other learning rates, no norms, parts of the recipe.
// `growing --details` runs all of them, `growing --rung 11 --details` those of one rung.
#pragma once

#include <fmt/format.h>

#include "core/error.h"
#include "experiments/common/comparison.h"
#include "experiments/growing/climb.h"

namespace folio::growing {

// Returns a recipe for gradient descent, by default without a schedule and clipping.
inline Recipe descent(double rate, bool scheduled = false, double clip = kInfinity) {
  return {.rate = rate,
          .last_rate = scheduled ? rate / 10.0 : rate,
          .warmup = scheduled ? Recipe{}.warmup : 0,
          .decay = 0.0,
          .clip = clip};
}

struct WithoutNorms : Deep {
  using Deep::Deep;
  Tensor body(const Tensor& embedded_BTD) override {
    Tensor x_BTD = embedded_BTD;
    for (const auto& block : blocks) {
      x_BTD = x_BTD + block->heads->forward(x_BTD);
      x_BTD = x_BTD + block->ffn->forward(x_BTD);
    }
    return x_BTD;
  }
};

struct Trial {
  int rung;
  std::string name;
  std::function<std::shared_ptr<Model>()> make;
  Recipe recipe{};
  bool adam = true;  // false: gradient descent
  int64_t times_as_long = 1;
};

inline std::vector<Trial> trials(int64_t V) {
  const int64_t D = 64, H = 4, F = 176, L = 4;
  const auto bigram = [=] { return std::make_shared<Bigram>(V); };
  const auto one = [=] { return std::make_shared<OneBlock>(V, D, H, F); };
  const auto deep = [=] { return std::make_shared<Deep>(V, D, H, F, L); };
  const auto bare = [=] { return std::make_shared<WithoutNorms>(V, D, H, F, L); };
  std::vector<Trial> all;
  for (const int64_t longer : {1, 2, 6})
    all.push_back({2, fmt::format("{} times as many steps", longer), bigram, descent(30.0), false, longer});
  for (const double rate : {0.5, 0.03})
    all.push_back({7, fmt::format("no norms, descent at {}", rate), bare, descent(rate), false});
  all.push_back({7, "no norms, descent at 0.5, clipped", bare, descent(0.5, false, 1.0), false});
  all.push_back({7, "norms, descent at 0.5, clipped", deep, descent(0.5, false, 1.0), false});
  all.push_back({7, "no norms, rung 11's recipe", bare});
  all.push_back({7, "norms, rung 11's recipe", deep});
  for (const double rate : {0.25, 0.5, 1.0}) {
    all.push_back({10, fmt::format("one block, descent at {}", rate), one, descent(rate), false});
    all.push_back({10, fmt::format("four blocks, descent at {}", rate), deep, descent(rate), false});
  }
  all.push_back({11, "descent at 0.5", deep, descent(0.5), false});
  all.push_back({11, "the same, schedule", deep, descent(0.5, true), false});
  for (const double rate : {0.5, 1.0, 2.0})
    all.push_back({11, fmt::format("descent at {}, schedule, clipping", rate), deep, descent(rate, true, 1.0), false});
  const double rate = Recipe{}.rate;
  all.push_back({11, "Adam alone", deep, {.last_rate = rate, .warmup = 0, .decay = 0.0, .clip = kInfinity}});
  all.push_back({11, "Adam, schedule", deep, {.decay = 0.0, .clip = kInfinity}});
  all.push_back({11, "all of it", deep});
  all.push_back({11, "all but the schedule", deep, {.last_rate = rate, .warmup = 0}});
  all.push_back({11, "all but clipping", deep, {.clip = kInfinity}});
  all.push_back({11, "all but decay", deep, {.decay = 0.0}});
  return all;
}

// Returns the validation loss of a bigram model whose counts come only from the training batches of one seed.
inline double loss_of_seen(const experiments::Shakespeare& text, const Setting& s, Text validation) {
  Counts seen(text.splits.train.first(1), text.vocab_size);
  for (int64_t step = 0; step < s.steps; ++step) {
    const Batch batch = random_batch(text.splits.train, s, step);
    const auto *h = batch.inputs_BT.data_ptr<int64_t>(), *w = batch.targets_BT.data_ptr<int64_t>();
    for (int64_t i = 0; i < s.B * s.T; ++i) seen.times[h[i]][w[i]] += 1.0;
  }
  return seen.loss(validation);
}

inline void show_details(Report& report, int only, const experiments::Shakespeare& text, const Setting& setting,
                         Text validation) {
  std::vector<Trial> chosen;
  for (Trial& trial : trials(text.vocab_size)) {
    if (only == 0 || trial.rung == only) chosen.push_back(std::move(trial));
  }
  if (chosen.empty()) throw core::UsageError("--details has runs of the rungs 2, 7, 10 and 11, not of this one");
  if (only == 0 || only == 2) {
    const double all = Counts(text.splits.train, text.vocab_size).loss(validation);
    const double seen = loss_of_seen(text, setting, validation);
    report.say(fmt::format("rung 2: counts of the whole text {:.4f}, of the characters in {} batches {:.4f}", all,
                           setting.steps, seen));
    if (!report.short_form()) report.check_below("counts of the batches lose by", seen - all, 0.01);
  }
  const std::vector<uint64_t> seeds = report.seeds();
  std::vector<std::vector<double>> losses(chosen.size(), std::vector<double>(seeds.size()));
  experiments::run_jobs(chosen.size() * seeds.size(), [&](size_t job) {
    const Trial& trial = chosen[job / seeds.size()];
    Setting s = setting;
    s.seed = seeds[job % seeds.size()];
    s.steps *= trial.times_as_long;
    s.evaluate_every = s.steps;
    const std::shared_ptr<Model> model = seeded(trial.make, s.seed);
    const Forward forward = [&](const Tensor& tokens_BT) { return model->forward(tokens_BT); };
    const auto parameters = model->parameters();
    const auto take_step = [&](int64_t step) {
      clip(parameters, trial.recipe.clip);
      descend(parameters, learning_rate(trial.recipe, step, s.steps));
    };
    const Training training =
        trial.adam ? train_with_adamw(forward, parameters, text.splits.train, validation, s, trial.recipe)
                   : train_model(forward, parameters, text.splits.train, validation, s, take_step);
    losses[job / seeds.size()][job % seeds.size()] = training.validation.back();
    report.say(
        fmt::format("  rung {}, {}, seed {}: {:.3f}", trial.rung, trial.name, s.seed, training.validation.back()));
  });
  Report::Rows rows;
  for (size_t i = 0; i < chosen.size(); ++i) {
    const double mean = experiments::mean_of(losses[i]);
    rows.push_back({chosen[i].rung, chosen[i].name, experiments::joined(losses[i]),
                    std::isnan(mean) ? "not a number" : fmt::format("{:.3f}", mean)});
  }
  report.table(fmt::format("Validation loss, {} steps unless said otherwise, by seed", setting.steps),
               {"rung", "what", "losses", "mean"}, rows);
}

}  // namespace folio::growing
