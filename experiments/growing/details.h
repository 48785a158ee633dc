// Additional training runs quoted in README.md: more steps, other learning rates, no norms, parts of the recipe.
// `growing --details` runs all of them, `growing --rung 11 --details` those of one rung.
#pragma once

#include <fmt/format.h>

#include <mutex>

#include "experiments/common/comparison.h"
#include "experiments/growing/climb.h"

namespace folio::growing {

// A training recipe: AdamW or plain gradient descent, with or without the other parts of rung 11's recipe.
struct How {
  bool adam = true;
  double rate = 3e-3;
  bool decays = true, scheduled = true, clips = true;
};
inline How descent(double rate, bool scheduled = false, bool clips = false) {
  return {.adam = false, .rate = rate, .decays = false, .scheduled = scheduled, .clips = clips};
}

inline Training train_so(const How& how, const Forward& forward, const std::vector<Tensor>& parameters, Text text,
                         Text validation, const Setting& s) {
  const Recipe defaults;
  const Recipe r{.rate = how.rate,
                 .last_rate = how.scheduled ? how.rate / 10.0 : how.rate,
                 .warmup = how.scheduled ? std::min(defaults.warmup, s.steps / 2) : 0,
                 .decay = how.decays ? defaults.decay : 0.0,
                 .clip = how.clips ? defaults.clip : kInfinity};
  AdamW adamw(r, parameters);
  return train_model(forward, parameters, text, validation, s, [&](int64_t step) {
    clip(parameters, r.clip);
    const double rate = learning_rate(r, step, s.steps);
    if (how.adam) return adamw.take_step(step, rate);
    descend(parameters, rate);
  });
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
  How how;
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
    all.push_back({2, fmt::format("{} times as many steps", longer), bigram, descent(30.0), longer});
  for (const double rate : {0.5, 0.03})
    all.push_back({7, fmt::format("no norms, descent at {}", rate), bare, descent(rate)});
  all.push_back({7, "no norms, descent at 0.5, clipped", bare, descent(0.5, false, true)});
  all.push_back({7, "norms, descent at 0.5, clipped", deep, descent(0.5, false, true)});
  all.push_back({7, "no norms, rung 11's recipe", bare, {}});
  all.push_back({7, "norms, rung 11's recipe", deep, {}});
  for (const double rate : {0.25, 0.5, 1.0}) {
    all.push_back({10, fmt::format("one block, descent at {}", rate), one, descent(rate)});
    all.push_back({10, fmt::format("four blocks, descent at {}", rate), deep, descent(rate)});
  }
  all.push_back({11, "descent at 0.5", deep, descent(0.5)});
  all.push_back({11, "the same, schedule", deep, descent(0.5, true)});
  for (const double rate : {0.5, 1.0, 2.0})
    all.push_back({11, fmt::format("descent at {}, schedule, clipping", rate), deep, descent(rate, true, true)});
  all.push_back({11, "Adam alone", deep, {.decays = false, .scheduled = false, .clips = false}});
  all.push_back({11, "Adam, schedule", deep, {.decays = false, .clips = false}});
  all.push_back({11, "all of it", deep, {}});
  all.push_back({11, "all but the schedule", deep, {.scheduled = false}});
  all.push_back({11, "all but clipping", deep, {.clips = false}});
  all.push_back({11, "all but decay", deep, {.decays = false}});
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
  if (only == 0 || only == 2) {
    const double all = Counts(text.splits.train, text.vocab_size).loss(validation);
    const double seen = loss_of_seen(text, setting, validation);
    report.say(fmt::format("rung 2: counts of the whole text {:.4f}, of the characters in {} batches {:.4f}", all,
                           setting.steps, seen));
    if (!report.short_form()) report.check_below("counts of the batches lose by", seen - all, 0.01);
  }
  std::vector<Trial> chosen;
  for (Trial& trial : trials(text.vocab_size)) {
    if (only == 0 || trial.rung == only) chosen.push_back(std::move(trial));
  }
  const std::vector<uint64_t> seeds = report.seeds();
  std::vector<std::vector<double>> losses(chosen.size(), std::vector<double>(seeds.size()));
  std::mutex one_at_a_time;  // guards LibTorch's global random number generator, `losses` and `report`
  experiments::run_jobs(chosen.size() * seeds.size(), [&](size_t job) {
    const Trial& trial = chosen[job / seeds.size()];
    Setting s = setting;
    s.seed = seeds[job % seeds.size()];
    s.steps *= trial.times_as_long;
    s.evaluate_every = s.steps;
    std::unique_lock lock(one_at_a_time);
    torch::manual_seed(s.seed);
    const std::shared_ptr<Model> model = trial.make();
    lock.unlock();
    const Training training = train_so(
        trial.how, [&](const Tensor& tokens_BT) { return model->forward(tokens_BT); }, model->parameters(),
        text.splits.train, validation, s);
    lock.lock();
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
