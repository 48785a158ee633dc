// Study: what goes wrong without the causal mask? The results are explained in README.md.
#include <fmt/format.h>
#include <torch/nn/modules/container/any.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "experiments/common/broken.h"
#include "experiments/common/comparison.h"
#include "experiments/common/heat_map.h"
#include "experiments/common/report.h"
#include "experiments/common/statistics.h"
#include "experiments/common/training.h"
#include "experiments/common/variants.h"
#include "train/report/ngram.h"
#include "train/verify/observe.h"

namespace folio::experiments {
namespace {

using Doubles = std::vector<double>;

constexpr int64_t kSampled = 400;  // number of characters to generate

struct Study {
  std::string name;
  bool masked;
  Doubles mean{}, last{}, sample{};  // by seed: mean loss, last position's loss, 3-gram loss of generated text
  std::string text{};                // generated with the first seed
  train::LineChart::Series by_position{};
  torch::Tensor weights_TT{};  // one head's attention weights on the first window of the validation split
};

// Returns the attention weights of all heads in all layers, [layers · heads, T, T].
torch::Tensor all_weights(nn::Llama& model, const torch::Tensor& tokens_1T) {
  const torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> weights_HTT;
  const auto modules = model->named_modules();
  train::forward_observed(model, tokens_1T, [&](const std::string& name, const torch::Tensor& x_BTD) {
    const std::string suffix = "_norm";
    if (!name.ends_with(".attention" + suffix)) return;
    auto& module = modules[name.substr(0, name.size() - suffix.size())];
    weights_HTT.push_back(module->as<nn::Attention>()->weights(x_BTD)[0]);
  });
  return torch::cat(weights_HTT).to(torch::kDouble);
}

// Returns the weights of the head with the largest mean weight at `offset` from the query (+1: next, -1: previous).
torch::Tensor head_that_looks(const torch::Tensor& weights_HTT, int64_t offset) {
  const torch::Tensor on_it_H = weights_HTT.diagonal(offset, 1, 2).mean(1);
  return weights_HTT[on_it_H.argmax().item<int64_t>()].contiguous();
}

// Trains a model with the s-th seed and stores its measurements in `study`.
void run_one(Study& study, size_t s, const Shakespeare& text, const train::NgramCounts& counts,
             const train::TrainConfig& config) {
  nn::Llama model =
      seeded_llama(config.model, config.seed, changed_blocks([&](nn::BlockParts& parts, const nn::RopeCache& rope) {
                     if (study.masked) return;
                     parts.attention = torch::nn::AnyModule(UnmaskedAttention(config.model, rope));
                   }));
  static_cast<void>(train_model(model, text, config));
  const Doubles losses = position_losses(model, text, config.window);
  study.mean[s] = mean_of(losses);
  study.last[s] = losses.back();
  const std::vector<int32_t> sample =
      sample_tokens(model, text.tokenizer.encode("\n"), kSampled, config.window, config.seed);
  study.sample[s] = counts.witten_bell_loss(std::span(sample).subspan(1), 3);
  if (s != 0) return;

  study.text = text.tokenizer.decode(sample);
  study.by_position.name = study.name;
  for (size_t t = 0; t < losses.size(); ++t) study.by_position.points.push_back({static_cast<double>(t), losses[t]});
  const auto window = text.splits.validation.first(static_cast<size_t>(config.window));
  const torch::Tensor tokens_1T = torch::tensor(std::vector<int64_t>(window.begin(), window.end())).unsqueeze(0);
  study.weights_TT = head_that_looks(all_weights(model, tokens_1T), study.masked ? -1 : 1);
}

HeatMap::Panel panel(const Study& study, const Shakespeare& text) {
  const torch::Tensor& w = study.weights_TT;
  std::vector<std::string> names;
  for (int64_t t = 0; t < w.size(0); ++t) {
    const std::string& character = text.tokenizer.token_bytes(text.splits.validation[static_cast<size_t>(t)]);
    names.push_back(character == "\n" ? "⏎" : character == " " ? "␣" : character);
  }
  return {.title = study.name,
          .rows = w.size(0),
          .columns = w.size(1),
          .values = {w.data_ptr<double>(), w.data_ptr<double>() + w.numel()},
          .row_names = names,
          .column_names = names};
}

void study(Report& report) {
  const Shakespeare text = load_shakespeare();
  const train::NgramCounts counts(text.splits.train, text.vocab_size, 3);
  const double real_text = counts.witten_bell_loss(text.splits.validation, 3);
  train::TrainConfig config = small_setting(text);
  if (report.short_form()) config.steps = 200;

  Study masked{.name = "with the mask", .masked = true}, unmasked{.name = "without the mask", .masked = false};
  const auto seeds = report.short_form() ? report.seeds() : paired_seeds(report);
  for (Study* one : {&masked, &unmasked}) one->mean = one->last = one->sample = Doubles(seeds.size());
  run_jobs(seeds.size(), [&](size_t s) {
    train::TrainConfig its = config;
    its.seed = seeds[s];
    for (Study* one : {&masked, &unmasked}) run_one(*one, s, text, counts, its);
  });

  Report::Rows rows;
  for (const Study* one : {&masked, &unmasked}) {
    rows.push_back({one->name, mean_of(one->mean), mean_of(one->last), mean_of(one->sample)});
    report.say(fmt::format("\n{}:{}", one->name, one->text));
  }
  const auto difference = [](const Doubles& without, const Doubles& with) {
    return shown(paired_interval(without, with));
  };
  rows.push_back({"without minus with", difference(unmasked.mean, masked.mean), difference(unmasked.last, masked.last),
                  difference(unmasked.sample, masked.sample)});
  report.table(fmt::format("Mean losses of {} seeds", seeds.size()),
               {"", "mean of 32 positions", "last position", "its output, by a 3-gram"}, rows);
  report.value("what Shakespeare's own text costs the 3-gram", real_text);

  report.check_below("without the mask the mean loss falls below", unmasked.mean, 0.5);
  report.check_above("but at the last position it stays above", unmasked.last, 2.7);
  report.check_above("where the model with the mask is better by", differences(unmasked.last, masked.last), 0.5);
  report.check_above("without the mask, the loss of a 3-gram on its output is above", unmasked.sample, 4.5);
  report.check_below("with it, the loss of a 3-gram on its output is below", masked.sample, 4.0);
  report.check_above("without the mask, a head's weight on the next position",
                     unmasked.weights_TT.diagonal(1).mean().item<double>(), 0.5);
  report.check_equal("with it, weights on later positions that are not 0",
                     masked.weights_TT.triu(1).ne(0).sum().item<int64_t>(), 0);

  report.picture("positions.svg", {.title = "Only the last position can't attend to its answer",
                                   .x_label = "position in the window",
                                   .y_label = "validation loss (nats per character)",
                                   .series = {masked.by_position, unmasked.by_position}});
  report.picture("attention.svg", HeatMap{.title = "How much of each position (column) goes into each position (row)",
                                          .subtitle = "one head of the model trained with the mask, and one without",
                                          .row_label = "position",
                                          .column_label = "position that is read",
                                          .panels = {panel(masked, text), panel(unmasked, text)}});
}

}  // namespace
}  // namespace folio::experiments

int main(int argc, char** argv) {
  return folio::experiments::run(argc, argv, "06_causal_mask", folio::experiments::study);
}
