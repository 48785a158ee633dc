// Climbs the rungs: trains each model from eight seeds, compares it with the one before, and shows what it writes.
// Table, picture and explanation: README.md beside this file. --rung N climbs one rung.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <mutex>
#include <string_view>

#include "core/error.h"
#include "experiments/common/comparison.h"
#include "experiments/growing/11_adamw.h"
#include "experiments/growing/on_paper.h"

namespace {

using namespace folio;           // NOLINT: a program of one file
using namespace folio::growing;  // NOLINT
using experiments::Report;

struct Rung {
  int number;
  std::string name;
  std::function<std::shared_ptr<Model>()> make;  // with first values from LibTorch's generator
  double rate = 0.5;                             // of gradient descent; rung 11 has its own rule
};

std::vector<Rung> rungs(int64_t V) {
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

// What one rung measured, by seed.
struct Climbed {
  int64_t parameters = 0;
  std::vector<Training> trainings{};
  std::vector<double> losses{};
  std::string sample{};      // of the first seed's model
  double future_seen = 0.0;  // how much a later character changes earlier logits
};

// The largest change of the logits before the last position when the last character changes.
double future_seen(Model& model, Text text, int64_t T) {
  const torch::NoGradGuard no_grad;
  const Tensor a_1T = torch::tensor(std::vector<int64_t>(text.begin(), text.begin() + T)).unsqueeze(0);
  const Tensor b_1T = a_1T.clone();
  b_1T[0][-1] = (b_1T[0][-1] + 1) % 65;
  return (model.forward(a_1T) - model.forward(b_1T)).narrow(1, 0, T - 1).abs().max().item<double>();
}

Climbed climb(const Report& report, const Rung& rung, const experiments::Shakespeare& text, const Setting& setting,
              Text validation, const std::vector<uint64_t>& seeds) {
  Climbed climbed;
  climbed.trainings.resize(seeds.size());
  climbed.losses.resize(seeds.size());
  std::mutex one_at_a_time;  // LibTorch's generator is one for all threads
  experiments::run_jobs(seeds.size(), [&](size_t i) {
    std::unique_lock lock(one_at_a_time);
    torch::manual_seed(seeds[i]);
    const std::shared_ptr<Model> model = rung.make();
    lock.unlock();
    Setting s = setting;
    s.seed = seeds[i];
    const Forward forward = [&](const Tensor& tokens_BT) { return model->forward(tokens_BT); };
    const auto parameters = model->parameters();
    Training training = rung.number == 11 ? train_with_adamw(forward, parameters, text.splits.train, validation, s)
                                          : train_model(forward, parameters, text.splits.train, validation, s,
                                                        [&](int64_t) { descend(parameters, rung.rate); });
    lock.lock();
    climbed.losses[i] = training.validation.back();
    climbed.trainings[i] = std::move(training);
    report.say(fmt::format("  {}, seed {}: {:.3f}", rung.name, seeds[i], climbed.losses[i]));
    if (i > 0) return;
    for (const Tensor& p : parameters) climbed.parameters += p.numel();
    climbed.sample = text.tokenizer.decode(sample(forward, text.tokenizer.encode("\n"), 240, s.T, seeds[i]));
    climbed.future_seen = future_seen(*model, validation, s.T);
  });
  return climbed;
}

// The mean curve of the seeds.
train::LineChart::Series curve(const std::string& name, const Climbed& climbed, const Setting& s) {
  train::LineChart::Series series{name, {}};
  for (size_t k = 0; k < climbed.trainings[0].validation.size(); ++k) {
    std::vector<double> losses;
    for (const Training& t : climbed.trainings) losses.push_back(t.validation[k]);
    const auto step = std::min(s.steps, static_cast<int64_t>(k) * s.evaluate_every);
    series.points.push_back({static_cast<double>(step), experiments::mean_of(losses)});
  }
  return series;
}

void study(Report& report, int only) {
  const experiments::Shakespeare text = experiments::load_shakespeare();
  Setting setting{.seed = report.seed()};
  if (report.short_form()) setting.steps = 20, setting.evaluate_every = 10;
  const Text validation = text.splits.validation.first(report.short_form() ? 2049 : 16'385);
  std::vector<uint64_t> seeds(report.short_form() ? 1 : 8);
  for (size_t i = 0; i < seeds.size(); ++i) seeds[i] = report.seed() + i;

  const Counts counts(text.splits.train, text.vocab_size);
  const double counted = counts.loss(validation);
  report.say(fmt::format("rung 1, counts: {:.3f}, and writes\n{}", counted, written(counts, text, report.seed())));
  show_batch(report, text, setting);
  show_averages(report);

  std::vector<std::vector<Report::Json>> rows{{"1 counts", text.vocab_size * text.vocab_size, counted, nullptr}};
  std::vector<train::LineChart::Series> curves;
  std::vector<Climbed> all;
  for (const Rung& rung : rungs(text.vocab_size)) {
    if (only != 0 && rung.number != only) continue;
    const std::string name = fmt::format("{} {}", rung.number, rung.name);
    all.push_back(climb(report, rung, text, setting, validation, seeds));
    const Climbed& now = all.back();
    report.say(fmt::format("rung {} writes\n{}\n", name, now.sample));
    const bool compared = all.size() > 1 && seeds.size() > 1;
    rows.push_back({name, now.parameters, experiments::mean_of(now.losses),
                    compared ? Report::Json(experiments::shown(
                                   experiments::paired_interval(now.losses, all[all.size() - 2].losses)))
                             : Report::Json()});
    curves.push_back(curve(name, now, setting));
    claim_sound(report, name, now.trainings, now.future_seen, text.vocab_size);
  }
  report.table(fmt::format("Validation loss after {} steps, mean of {} seeds", setting.steps, seeds.size()),
               {"rung", "parameters", "loss", "against the rung before"}, rows);
  report.picture("growing.svg", {.title = "One model that becomes a Llama, rung by rung",
                                 .x_label = "step (512 characters each)",
                                 .y_label = "validation loss (nats per character)",
                                 .series = curves,
                                 .references = {{"1 counts", counted}}});
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<char*> others;
  int only = 0;
  for (int i = 0; i < argc; ++i) {
    if (std::string_view(argv[i]) != "--rung") {
      others.push_back(argv[i]);
      continue;
    }
    const std::string_view value = i + 1 < argc ? argv[++i] : "";
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), only);
    if (error != std::errc{} || end != value.data() + value.size() || only < 1 || only > 11) {
      fmt::print(stderr, "growing: --rung is a whole number from 1 to 11, not {}\n", core::printable(value));
      return 2;
    }
  }
  return experiments::run(static_cast<int>(others.size()), others.data(), "growing",
                          [only](Report& report) { study(report, only); });
}
