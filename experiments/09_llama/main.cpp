// Study: how much does each part of a Llama reduce the loss? The results are explained in README.md.
#include <fmt/format.h>
#include <torch/nn/modules/container/any.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>

#include "core/manifest.h"
#include "data/batches.h"
#include "experiments/common/broken.h"
#include "experiments/common/comparison.h"
#include "experiments/common/interval_chart.h"
#include "experiments/common/variants.h"
#include "train/step/evaluate.h"

namespace folio::experiments {
namespace {

using core::ModelConfig;
using torch::nn::AnyModule;

// Index in variants_of() of the first variant with a part removed. Variant 0 is the whole model, 1 to 5 only change a
// part, and the last has no causal mask.
constexpr size_t kFirstTakenAway = 6;

std::vector<Variant> variants_of(const ModelConfig& model) {
  ModelConfig mqa = model;
  mqa.n_kv_heads = 1;
  ModelConfig untied = model;
  untied.tie_embeddings = false;
  const auto relu = blocks_with_plain_feed_forward(model, PlainFeedForwardImpl::Activation::ReLU);
  const auto unmasked = changed_blocks([model](nn::BlockParts& parts, const nn::RopeCache& rope) {
    parts.attention = AnyModule(UnmaskedAttention(model, rope));
  });
  std::vector<Variant> variants{{"the whole Llama", model},
                                {"ReLU instead of SwiGLU", model, relu},
                                {"untied embeddings", untied},
                                {"one key/value head", mqa},
                                {"first values of 0.02", model},
                                {"all first values by width", model},
                                {"no norms in the blocks", model, blocks_without_norms()},
                                {"no RoPE", model, changed_blocks({}, no_rope(model))},
                                {"no feed-forward", model, blocks_without_feed_forward()},
                                {"no attention", model, blocks_without_attention()},
                                {"no residual connections", model, blocks_without_residuals()},
                                {"no residuals, all first values by width", model, blocks_without_residuals()},
                                {"no causal mask", model, unmasked}};
  for (Variant& variant : variants) {
    if (variant.name == "first values of 0.02") continue;
    variant.prepare =
        variant.name.ends_with("all first values by width") ? draw_blocks_by_width : draw_feed_forwards_by_width;
  }
  return variants;
}

// Returns the mean loss at the last position of windows that begin at every `stride`-th character. The last
// target is not part of the input, so even a model without the causal mask must predict it.
double last_position_loss(nn::Llama& model, const Shakespeare& text, int64_t window, int64_t stride) {
  constexpr int64_t kWindowsAtOnce = 128;
  const torch::NoGradGuard no_grad;
  double sum = 0.0;
  int64_t count = 0;
  for (int64_t begin = 0; begin < window; begin += stride) {
    const auto tokens = text.splits.validation.subspan(static_cast<size_t>(begin), kValidationTokens + 1);
    for (int64_t first = 0; first < data::consecutive_windows(tokens, window); first += kWindowsAtOnce) {
      const int64_t rows = std::min(kWindowsAtOnce, data::consecutive_windows(tokens, window) - first);
      const auto batch = train::to_tensors(data::consecutive_batch(tokens, first, rows, window), torch::kCPU);
      const torch::Tensor logits_BV = model->forward(batch.inputs_BT).select(1, window - 1);
      sum += torch::cross_entropy_loss(logits_BV, batch.targets_BT.select(1, window - 1)).item<double>() *
             static_cast<double>(rows);
      count += rows;
    }
  }
  return sum / static_cast<double>(count);
}

void check_results(Report& report, const std::vector<Outcome>& outcomes) {
  const Outcome& whole = outcomes.front();
  const Outcome& unmasked = outcomes.back();
  for (size_t i = kFirstTakenAway; i < outcomes.size(); ++i) {
    report.check_above(outcomes[i].name + ": the last position's loss rises by",
                       paired_interval(outcomes[i].measured, whole.measured), 0.05);
  }
  report.check_below("without the mask the mean loss over all positions is below", unmasked.losses, 1.0);
}

void study(Report& report) {
  const Shakespeare text = load_shakespeare();
  train::TrainConfig setting = decaying_setting(text, report.short_form() ? 30 : 300);
  if (report.short_form()) {
    setting.model.n_layers = 1;
    setting.model.dim = 32;
    setting.model.head_dim = 32 / setting.model.n_heads;
    setting.model.hidden_dim = 88;
  }

  const int64_t stride = report.short_form() ? setting.window : 16;
  const auto measure = [&](nn::Llama& model) { return last_position_loss(model, text, setting.window, stride); };
  std::vector<Variant> variants = variants_of(setting.model);
  const auto rates = tune_variants(report, text, setting, variants, measure);
  const auto outcomes = train_variants(report, text, setting, variants, paired_seeds(report), measure);
  const Outcome& whole = outcomes.front();
  Report::Rows rate_rows, rows;
  std::vector<IntervalChart::Row> chart;
  for (size_t i = 0; i < outcomes.size(); ++i) {
    const Outcome& outcome = outcomes[i];
    const auto cost = paired_interval(outcome.measured, whole.measured);
    const auto [lowest, highest] = std::ranges::minmax_element(outcome.measured);
    rate_rows.push_back({outcome.name, shown(rates[i])});
    rows.push_back({outcome.name, outcome.parameters, fmt::format("{:g}", variants[i].lr), mean_of(outcome.losses),
                    mean_of(outcome.measured), fmt::format("{:.3f} – {:.3f}", *lowest, *highest),
                    i == 0 ? Report::Json() : Report::Json(shown(cost))});
    if (i > 0) chart.push_back({outcome.name, cost});
  }
  report.table("Loss at the last position by learning rate, mean of the seeds on which it is chosen", {"model", "loss"},
               rate_rows);
  report.table(
      fmt::format("After {} steps, each at its best rate: loss over all positions, and at the last position; {}",
                  setting.steps, count_of_intervals(chart.size() + 1)),
      {"model", "parameters", "rate", "all positions", "last position", "of the seeds", "against the whole Llama"},
      rows);
  const auto named = [&](const std::string& name) -> const Outcome& {
    return *std::ranges::find(outcomes, name, &Outcome::name);
  };
  report.table("Residual connections taken away, with all first values by width", {"", "last position"},
               {{"against the whole with these first values",
                 shown(paired_interval(named("no residuals, all first values by width").measured,
                                       named("all first values by width").measured))}});
  report.check_equal("the whole Llama's parameters, by formula", whole.parameters,
                     core::parameter_count(setting.model));
  if (!report.short_form()) check_results(report, outcomes);
  report.picture(
      "llama.svg",
      IntervalChart{.title = "A Llama with one part changed or taken away",
                    .subtitle = "each at its own best learning rate; mean and 95 % interval over eight seeds",
                    .x_label = "loss at the last position minus that of the whole Llama (nats)",
                    .rows = chart,
                    .references = {{"the whole Llama", 0.0}}});
}

}  // namespace
}  // namespace folio::experiments

int main(int argc, char** argv) { return folio::experiments::run(argc, argv, "09_llama", folio::experiments::study); }
