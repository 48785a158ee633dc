// Study: how much does a mixture of experts lower the loss, compared with one feed-forward network of the same cost
// per token? The results are explained in README.md.
#include <fmt/format.h>

#include <array>
#include <string_view>
#include <utility>

#include "core/manifest.h"
#include "experiments/24_experts/mixtures.h"
#include "experiments/common/heat_map.h"
#include "train/report/matrix_peak.h"

namespace folio::experiments {
namespace {

using train::Balance;

void dense_and_experts(Report& report, const Shakespeare& text, const train::TrainConfig& setting) {
  std::vector<Method> methods{dense(setting), experts(setting, 4, 2), experts(setting, 8, 2), experts(setting, 16, 2),
                              experts(setting, 16, 4)};
  report.say("dense and experts");
  compare(report, text, setting, methods);

  Report::Rows rows, rates;
  for (const Method& m : methods) {
    rows.push_back(
        {m.name, core::parameter_count(m.model), train::active_parameters(m.model), fmt::format("{:g}", m.lr)});
    for (Report::Json& cell : result_cells(methods, m)) rows.back().push_back(std::move(cell));
    report.value(m.name + " gain at equal steps", mean_of(methods[0].judged) - mean_of(m.judged));
    for (size_t i = 0; i < m.search.rates.size(); ++i) {
      rates.push_back({fmt::format("{} at {:g}", m.name, m.search.rates[i]), m.search.losses[i]});
    }
    // A token uses as many parameters as in the dense model, plus those of the routers.
    const int64_t routers = setting.model.n_layers * m.model.n_experts * setting.model.dim;
    report.check_equal(m.name + ": active parameters without routers", train::active_parameters(m.model) - routers,
                       core::parameter_count(methods[0].model));
  }
  report.table(fmt::format("After {} steps, and in the dense model's time; {}", setting.steps,
                           count_of_intervals(2 * (methods.size() - 1))),
               {"", "parameters", "active", "rate", "loss", "against dense", "ms a step", "steps in that time", "loss",
                "against dense"},
               rows);
  report.table("Loss by rate, mean of the two seeds on which it is chosen", {"", "loss"}, rates);
  if (report.short_form()) return;

  const std::string title = "Experts against one network of the same work";
  report.picture("dense_and_experts.svg", chart_of(methods, title, "the dense model's"));
  const Method &two_of_8 = methods[2], &four_of_16 = methods[4];
  report.check_above("at equal steps 4 of 16 experts beat the dense model by",
                     paired_interval(methods[0].judged, four_of_16.judged), 0.0);
  for (const Method* m : {&two_of_8, &four_of_16}) {
    report.check_above("in equal time the dense model beats " + m->name + " by",
                       paired_interval(m->judged_in_time, methods[0].judged), 0.0);
  }
}

void balances(Report& report, const Shakespeare& text, const train::TrainConfig& setting) {
  std::vector<Method> methods;
  const auto add = [&](const std::string& name, Balance balance, double rate, double sequence_loss = 0.0) {
    methods.push_back(experts(setting, 8, 2, balance, rate));
    methods.back().name = name;
    methods.back().sequence_loss = sequence_loss;
  };
  add("softmax, no balance", Balance::Loss, 0.0);
  add("softmax, loss times 0.001", Balance::Loss, 0.001);
  add("softmax, loss times 0.01", Balance::Loss, 0.01);
  add("sigmoid, no balance", Balance::Bias, 0.0);
  add("sigmoid, bias by 0.001", Balance::Bias, 0.001);
  add("sigmoid, bias by 0.01", Balance::Bias, 0.01);
  add("sigmoid, bias by 0.01, sequence loss times 0.0001", Balance::Bias, 0.01, 1e-4);
  add("sigmoid, bias by 0.01, sequence loss times 0.1", Balance::Bias, 0.01, 0.1);
  report.say("balance");
  measure_loads(report, text, setting, methods);
  Report::Rows rows;
  for (size_t i = 0; i < methods.size(); ++i) {
    const Method &m = methods[i], &without = methods[i < 3 ? 0 : 3];
    const bool first = &m == &without;
    rows.push_back({m.name, mean_of(m.loads), mean_of(m.window_loads), mean_of(m.judged),
                    first ? Report::Json() : Report::Json(shown(paired_interval(m.judged, without.judged)))});
    if (!first) report.value(m.name + " costs", mean_of(m.judged) - mean_of(without.judged));
  }
  rows.push_back({"uniformly random", 1.0, random_window_load(setting.window, 8, 2, report.seed()), {}, {}});
  report.table(fmt::format("2 of 8 experts, after {} steps: the load of the fullest expert, over the mean; {}",
                           setting.steps, count_of_intervals(6)),
               {"", "load", "load in a window", "loss", "against no balance"}, rows);
  if (report.short_form()) return;
  for (const size_t without : {size_t{0}, size_t{3}}) {
    const Method& with = methods[without + 2];
    report.check_below(with.name + ": its load minus that without balance",
                       paired_interval(with.loads, methods[without].loads), 0.0);
  }
}

std::string shown_character(const std::string& c) {
  if (c == "\n") return "⏎";
  return c == " " ? "␣" : c;
}

constexpr std::array<const char*, 4> kKinds{"blanks and signs", "capitals", "vowels", "consonants"};

size_t kind_of(char c) {
  if (c >= 'A' && c <= 'Z') return 1;
  if (c < 'a' || c > 'z') return 0;
  return std::string_view("aeiou").find(c) != std::string_view::npos ? 2 : 3;
}

void show_choices(Report& report, const Shakespeare& text, const train::TrainConfig& setting) {
  const Method method = experts(setting, 8, 2);
  nn::Llama model = trained(text, setting, method, report.seed());
  const std::vector<Choices> layers = choices_of(model, text, setting.window);
  const auto kind = [&](size_t v) { return kind_of(text.tokenizer.characters()[v][0]); };
  HeatMap map{.title = "Which expert processes which character",
              .subtitle = "of a character's occurrences in the validation text, the share that an expert processes",
              .row_label = "expert",
              .column_label = "character",
              .panels_per_row = static_cast<int64_t>(kKinds.size())};
  Report::Rows rows;
  const auto n = static_cast<size_t>(text.vocab_size);
  for (size_t l = 0; l < layers.size(); ++l) {
    for (size_t k = 0; k < kKinds.size(); ++k) {
      std::vector<size_t> these;
      for (size_t v = 0; v < n; ++v) {
        if (kind(v) == k) these.push_back(v);
      }
      HeatMap::Panel panel{.title = fmt::format("layer {}, {}", l, kKinds[k]),
                           .rows = method.model.n_experts,
                           .columns = static_cast<int64_t>(these.size()),
                           .values = {}};
      for (int64_t e = 0; e < method.model.n_experts; ++e) {
        for (const size_t v : these) panel.values.push_back(layers[l].share[static_cast<size_t>(e) * n + v]);
      }
      for (const size_t v : these) panel.column_names.push_back(shown_character(text.tokenizer.characters()[v]));
      map.panels.push_back(std::move(panel));
    }
    rows.push_back({static_cast<int64_t>(l), layers[l].bits});
    report.check_equal(fmt::format("layer {}: experts selected, of two for each character", l), layers[l].taken,
                       2 * layers[l].rows);
    if (!report.short_form()) report.check_above(fmt::format("layer {}: bits", l), layers[l].bits, 0.5);
  }
  report.table("Mutual information of a character and its selected expert, of at most 2 bits", {"layer", "bits"}, rows);
  report.picture("characters.svg", map);
}

void study(Report& report) {
  const Shakespeare text = load_shakespeare();
  train::TrainConfig setting = small_setting(text);
  setting.steps = report.short_form() ? 5 : 400;
  dense_and_experts(report, text, setting);
  balances(report, text, setting);
  show_choices(report, text, setting);
}

}  // namespace
}  // namespace folio::experiments

int main(int argc, char** argv) { return folio::experiments::run(argc, argv, "24_experts", folio::experiments::study); }
