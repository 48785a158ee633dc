// Study: how much does RoPE reduce the loss compared with no position encoding, and how far does it extrapolate? The
// results are explained in README.md.
#include <fmt/format.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "experiments/common/comparison.h"
#include "experiments/common/heat_map.h"
#include "experiments/common/report.h"
#include "experiments/common/statistics.h"
#include "experiments/common/training.h"
#include "experiments/common/variants.h"

namespace folio::experiments {
namespace {

using core::ModelConfig;
using Doubles = std::vector<double>;

constexpr std::array<int64_t, 4> kTimes{1, 2, 8, 16};  // evaluated window lengths, as multiples of the training length

// A function that returns rotations for config.context_length positions. `scale` is context_length divided by
// the context length in training.
using Rotations = nn::RopeCache (*)(const ModelConfig& config, double scale);

nn::RopeCache plain_rope(const ModelConfig& config, double) {
  return nn::RopeCache(config.context_length, config.head_dim, config.rope_theta);
}

nn::RopeCache no_positions(const ModelConfig& config, double) { return no_rope(config); }

// Returns rotations with a common mistake: angles p · theta^(-2(i - 1)/d) with i starting at 0 instead of 1.
nn::RopeCache rope_off_by_one(const ModelConfig& config, double) {
  return linear_rope(config, std::pow(config.rope_theta, -2.0 / static_cast<double>(config.head_dim)));
}

struct Trained {
  std::string name;
  Rotations rope;
  Doubles losses{};  // validation losses by seed
};

struct Way {
  std::string name;
  Rotations rope;
  // Losses by seed for windows of 32, 64, 256 and 512 characters, each averaged over the second half of the window.
  std::array<Doubles, kTimes.size()> losses{};
  Doubles far{};  // loss at each of 512 positions, for the last seed
};

nn::Llama make_model(const ModelConfig& config, uint64_t seed, const nn::RopeCache& rope) {
  return seeded_llama(config, seed, changed_blocks({}, rope));
}

// Returns the loss at each position of windows of `length`, with the model's parameters and the rotations of `rope`.
Doubles losses_at_length(const nn::Llama& model, const Shakespeare& text, int64_t length, Rotations rope) {
  ModelConfig config = model->config();
  const double scale = static_cast<double>(length) / static_cast<double>(config.context_length);
  config.context_length = length;
  nn::Llama longer = make_model(config, 0, rope(config, scale));
  copy_parameters(model, longer);
  return position_losses(longer, text, length);
}

void train_and_lengthen(const Shakespeare& text, const train::TrainConfig& setting, const std::vector<uint64_t>& seeds,
                        std::vector<Trained>& trained, std::vector<Way>& ways) {
  for (Trained& t : trained) t.losses.resize(seeds.size());
  for (Way& way : ways) {
    for (Doubles& losses : way.losses) losses.resize(seeds.size());
  }
  run_jobs(seeds.size(), [&](size_t s) {
    train::TrainConfig config = setting;
    config.seed = seeds[s];
    std::vector<nn::Llama> models;
    for (Trained& t : trained) {
      models.push_back(make_model(config.model, config.seed, t.rope(config.model, 1.0)));
      t.losses[s] = train_model(models.back(), text, config).validation_loss;
    }
    for (Way& way : ways) {
      const nn::Llama& model = way.rope == no_positions ? models[0] : models[1];
      for (size_t i = 0; i < kTimes.size(); ++i) {
        const Doubles losses = losses_at_length(model, text, kTimes[i] * config.window, way.rope);
        way.losses[i][s] = mean_of(std::span(losses).last(losses.size() / 2));
        if (s + 1 == seeds.size()) way.far = losses;
      }
    }
  });
}

train::LineChart chart_of(const std::vector<Way>& ways) {
  train::LineChart chart{.title = "A model trained on windows of 32, read in windows of 512",
                         .x_label = "position in the window",
                         .y_label = "validation loss (nats per character)",
                         .log_x = true};
  for (const Way& way : ways) {
    chart.series.push_back({way.name, {}});
    for (size_t first = 1; first < way.far.size(); first *= 2) {  // groups of positions: 1, 2-3, 4-7, …
      chart.series.back().points.push_back(
          {1.5 * static_cast<double>(first), mean_of(std::span(way.far).subspan(first, first))});
    }
  }
  return chart;
}

HeatMap::Panel panel(const std::string& title, const torch::Tensor& scores_TT) {
  const torch::Tensor values = (scores_TT - scores_TT.mean()).contiguous();  // centered to use the full color scale
  return {.title = title,
          .rows = values.size(0),
          .columns = values.size(1),
          .values = {values.data_ptr<double>(), values.data_ptr<double>() + values.numel()}};
}

// The next functions return scores [T, T] for T = config.context_length, in double, highest at distance 0. Query and
// key are the same random vector, rotated by RoPE or with the sines of Vaswani et al. 2017 added.

torch::Tensor random_vector(const ModelConfig& config, uint64_t seed) {
  torch::manual_seed(seed);
  return torch::randn(config.head_dim, torch::kDouble);
}

torch::Tensor scores_of(const torch::Tensor& placed_TK) {
  return placed_TK.matmul(placed_TK.t()) / std::sqrt(static_cast<double>(placed_TK.size(1)));
}

torch::Tensor scores_of_rotated(const ModelConfig& config, uint64_t seed) {
  nn::RopeCache rope(config.context_length, config.head_dim, config.rope_theta);
  const torch::Tensor x_K = random_vector(config, seed);
  return scores_of(rope->apply(x_K.expand({1, config.context_length, 1, config.head_dim})).flatten(0, 2));
}

torch::Tensor scores_with_sines(const ModelConfig& config, uint64_t seed) {
  nn::RopeCache rope(2, config.head_dim, config.rope_theta);  // only its frequencies are used
  const torch::Tensor positions_T = torch::arange(config.context_length, torch::kDouble);
  const torch::Tensor angle_TP = torch::outer(positions_T, rope->rotations()[1].angle());
  return scores_of(random_vector(config, seed) + torch::stack({angle_TP.sin(), angle_TP.cos()}, -1).flatten(-2));
}

// Returns the largest difference between scores at equal distance, as a fraction of the largest score.
double spread_at_equal_distance(const torch::Tensor& scores_TT) {
  double spread = 0.0;
  for (int64_t distance = 1 - scores_TT.size(0); distance < scores_TT.size(0); ++distance) {
    const torch::Tensor line = scores_TT.diagonal(distance);
    spread = std::max(spread, (line.max() - line.min()).item<double>());
  }
  return spread / scores_TT.abs().max().item<double>();
}

// Shows the attention scores of a fixed query and key at all pairs of positions. Trains no model.
void study_scores(Report& report, const ModelConfig& config) {
  Doubles rotated_spread, added_spread;
  for (const uint64_t seed : report.seeds()) {
    rotated_spread.push_back(spread_at_equal_distance(scores_of_rotated(config, seed)));
    added_spread.push_back(spread_at_equal_distance(scores_with_sines(config, seed)));
  }
  report.check_below("rotated: scores at equal distance differ by (share of the largest)", rotated_spread, 1e-12);
  report.check_above("added: scores at equal distance differ by (share of the largest)", added_spread, 0.1);
  report.picture("scores.svg",
                 HeatMap{.title = "The score of one query with one key, wherever they stand",
                         .subtitle = "RoPE turns them; the older way adds a pattern of sines. Minus the mean of each",
                         .row_label = "query's position",
                         .column_label = "key's position",
                         .panels = {panel("rotated (RoPE)", scores_of_rotated(config, report.seed())),
                                    panel("added (sines)", scores_with_sines(config, report.seed()))}});
}

void study(Report& report) {
  const Shakespeare text = load_shakespeare();
  train::TrainConfig config = small_setting(text);
  config.model.n_layers = 1;
  std::vector<Trained> trained{
      {"no positions", no_positions}, {"RoPE", plain_rope}, {"RoPE with i - 1 for i", rope_off_by_one}};
  std::vector<Way> ways{{"RoPE, plain", plain_rope},
                        {"RoPE, linear scaling", linear_rope},
                        {"RoPE, NTK scaling", ntk_rope},
                        {"no positions", no_positions}};
  const auto seeds = report.short_form() ? report.seeds() : paired_seeds(report);
  train_and_lengthen(text, config, seeds, trained, ways);

  Report::Rows rows, far_rows, differences;
  const auto against = [](const Doubles& a, const Doubles& b) -> Report::Json {
    if (a == b) return "";
    return shown(paired_interval(a, b));
  };
  for (const Trained& t : trained) {
    rows.push_back(
        {t.name, mean_of(t.losses), against(t.losses, trained[0].losses), against(t.losses, trained[1].losses)});
  }
  for (const Way& way : ways) {
    far_rows.push_back({way.name});
    differences.push_back({way.name});
    for (size_t i = 0; i < kTimes.size(); ++i) {
      far_rows.back().push_back(mean_of(way.losses[i]));
      differences.back().push_back(against(way.losses[i], ways[0].losses[i]));
    }
  }
  const std::vector<std::string> columns{"", "32", "64", "256", "512"};
  report.table("One layer, mean loss of the seeds, and 95 % intervals of differences",
               {"", "loss", "against no positions", "against RoPE"}, rows);
  report.table("Loss over the second half of longer windows, mean of the seeds", columns, far_rows);
  report.table("The same, more than plain RoPE's, with 95 % intervals", columns, differences);
  report.picture("longer.svg", chart_of(ways));
  study_scores(report, config.model);

  report.check_below("RoPE changes one layer's loss by (interval's upper end)",
                     paired_interval(trained[1].losses, trained[0].losses).high, -0.1);
  report.check_below("at twice the trained length, NTK scaling changes the loss by (upper end)",
                     paired_interval(ways[2].losses[1], ways[0].losses[1]).high, -0.04);
  for (const size_t far : {2, 3}) {
    for (size_t way = 0; way < 3; ++way) {
      report.check_above(fmt::format("at {} times that length, {} costs more than no positions, by (lower end)",
                                     kTimes[far], ways[way].name),
                         paired_interval(ways[way].losses[far], ways[3].losses[far]).low, 0.05);
    }
  }
}

}  // namespace
}  // namespace folio::experiments

int main(int argc, char** argv) { return folio::experiments::run(argc, argv, "05_rope", folio::experiments::study); }
