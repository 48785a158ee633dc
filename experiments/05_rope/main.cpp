// What do rotated positions buy, and how far do they reach? Table, pictures and explanation: README.md beside this
// file.
#include <fmt/format.h>
#include <torch/types.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "experiments/common/comparison.h"
#include "experiments/common/heat_map.h"
#include "experiments/common/position_scores.h"
#include "experiments/common/report.h"
#include "experiments/common/statistics.h"
#include "experiments/common/training.h"
#include "experiments/common/variants.h"

namespace {

using namespace folio;  // NOLINT: a program of one file
using experiments::Report;
using Doubles = std::vector<double>;

constexpr std::array<int64_t, 4> kTimes{1, 2, 8, 16};  // the trained length

experiments::HeatMap::Panel panel(const std::string& title, const torch::Tensor& scores_TT) {
  const torch::Tensor values = (scores_TT - scores_TT.mean()).contiguous();  // so that both use all of the colours
  return {.title = title,
          .rows = values.size(0),
          .columns = values.size(1),
          .values = {values.data_ptr<double>(), values.data_ptr<double>() + values.numel()}};
}

// The model in windows of `length`, with other rotations and the same parameters: the loss at each position.
Doubles losses_at_length(const nn::Llama& model, const experiments::Shakespeare& text, int64_t length,
                         nn::RopeCache (*rope)(const core::ModelConfig&, double)) {
  core::ModelConfig config = model->config();
  const double scale = static_cast<double>(length) / static_cast<double>(config.context_length);
  config.context_length = length;
  nn::Llama longer = experiments::seeded_llama(config, 0, experiments::changed_blocks(config, {}, rope(config, scale)));
  experiments::copy_parameters(model, longer);
  return experiments::position_losses(longer, text, length);
}

struct Way {
  std::string name;
  nn::RopeCache (*rope)(const core::ModelConfig& config, double scale);
  // The loss over the second half of windows of 32, 64, 256 and 512, each by seed.
  std::vector<Doubles> losses = std::vector<Doubles>(kTimes.size());
};

void study(Report& report) {
  const experiments::Shakespeare text = experiments::load_shakespeare();
  train::TrainConfig config = experiments::small_setting(text);
  config.model.n_layers = 1;
  const auto plain = [](const core::ModelConfig& c, double) {
    return nn::RopeCache(c.context_length, c.head_dim, c.rope_theta);
  };
  const auto no_positions = [](const core::ModelConfig& c, double) { return experiments::no_rope(c); };
  std::vector<Way> ways{{"RoPE, plain", plain},
                        {"RoPE, linear scaling", experiments::linear_rope},
                        {"RoPE, NTK scaling", experiments::ntk_rope},
                        {"no positions", no_positions}};

  Doubles with, without;
  train::LineChart chart{.title = "A model trained on windows of 32, read in windows of 512",
                         .x_label = "position in the window",
                         .y_label = "validation loss (nats per character)",
                         .log_x = true};
  for (const uint64_t seed : report.seeds()) {
    config.seed = seed;
    nn::Llama rope = experiments::seeded_llama(config.model, seed);
    nn::Llama none = experiments::seeded_llama(
        config.model, seed, experiments::changed_blocks(config.model, {}, experiments::no_rope(config.model)));
    with.push_back(experiments::train_model(rope, text, config).validation_loss);
    without.push_back(experiments::train_model(none, text, config).validation_loss);
    chart.series.clear();
    for (Way& way : ways) {
      const nn::Llama& model = way.name == "no positions" ? none : rope;
      Doubles far;
      for (size_t i = 0; i < kTimes.size(); ++i) {
        far = losses_at_length(model, text, kTimes[i] * config.window, way.rope);
        way.losses[i].push_back(experiments::mean_of(std::span(far).last(far.size() / 2)));
      }
      chart.series.push_back({way.name, {}});
      for (size_t first = 1; first < far.size(); first *= 2) {  // positions 1, 2-3, 4-7, …, in the middle of each
        chart.series.back().points.push_back(
            {1.5 * static_cast<double>(first), experiments::mean_of(std::span(far).subspan(first, first))});
      }
    }
  }

  report.table("One layer, validation loss by seed", {"", "loss"},
               {{"no positions", experiments::joined(without)}, {"RoPE", experiments::joined(with)}});
  std::vector<std::vector<Report::Json>> rows, differences;
  for (const Way& way : ways) {
    rows.push_back({way.name});
    for (const Doubles& losses : way.losses) rows.back().push_back(experiments::joined(losses));
    if (&way == &ways[0] || report.short_form()) continue;
    differences.push_back({way.name});
    for (size_t i = 1; i < kTimes.size(); ++i) {
      differences.back().push_back(experiments::shown(experiments::paired_interval(way.losses[i], ways[0].losses[i])));
    }
  }
  report.table("Loss over the second half of longer windows, by seed", {"", "32", "64", "256", "512"}, rows);
  if (!differences.empty()) {
    report.table("More than plain RoPE: mean and 95 % interval", {"", "64", "256", "512"}, differences);
  }
  report.picture("longer.svg", chart);

  const auto rotated = [&](uint64_t seed) { return experiments::scores_of_rotated(config.model, seed); };
  const auto added = [&](uint64_t seed) { return experiments::scores_with_sines(config.model, seed); };
  Doubles rotated_spread, added_spread;
  for (const uint64_t seed : report.seeds()) {
    rotated_spread.push_back(experiments::spread_at_equal_distance(rotated(seed)));
    added_spread.push_back(experiments::spread_at_equal_distance(added(seed)));
  }
  report.picture(
      "scores.svg",
      experiments::HeatMap{
          .title = "The score of one query with one key, wherever they stand",
          .subtitle = "RoPE turns them; the older way adds a pattern of sines. Minus the mean of each",
          .row_label = "query's position",
          .column_label = "key's position",
          .panels = {panel("rotated (RoPE)", rotated(report.seed())), panel("added (sines)", added(report.seed()))}}
          .svg());

  report.claim_above("RoPE saves one layer", experiments::differences(without, with), 0.1);
  report.claim_below("rotated: scores at equal distance differ by (share of the largest)", rotated_spread, 1e-12);
  report.claim_above("added: scores at equal distance differ by (share of the largest)", added_spread, 0.1);
  report.claim_above("at twice the trained length, NTK scaling saves",
                     experiments::differences(ways[0].losses[1], ways[2].losses[1]), 0.04);
  const Doubles ntk_at_16 = experiments::differences(ways[2].losses[3], ways[0].losses[3]);
  report.claim_below("at 16 times that length, NTK scaling changes the loss by", ntk_at_16, 0.1);
  report.claim_above("at 16 times that length, NTK scaling changes the loss by", ntk_at_16, -0.1);
  for (const size_t far : {2, 3}) {
    for (size_t way = 0; way < 3; ++way) {
      report.claim_above(
          fmt::format("at {} times that length, {} costs more than no positions, by", kTimes[far], ways[way].name),
          experiments::differences(ways[way].losses[far], ways[3].losses[far]), 0.1);
    }
  }
}

}  // namespace

int main(int argc, char** argv) { return experiments::run(argc, argv, "05_rope", study); }
