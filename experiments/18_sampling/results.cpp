#include "experiments/18_sampling/results.h"

#include <fmt/format.h>

#include <algorithm>

#include "experiments/common/statistics.h"

namespace folio::experiments {
namespace {

bool cuts(const infer::SamplerOptions& options) {
  return options.top_k > 0 || options.top_p < 1.0F || options.min_p > 0.0F;
}

}  // namespace

void Results::add(const std::string& name, const std::vector<Counted>& texts) {
  texts_[name].insert(texts_[name].end(), texts.begin(), texts.end());
}

std::vector<double> Results::all(const std::string& name, double Counted::*number) const {
  std::vector<double> values;
  for (const Counted& text : texts_.at(name)) values.push_back(text.*number);
  return values;
}

double Results::mean(const std::string& name, double Counted::*number) const { return mean_of(all(name, number)); }

double Results::least(const std::string& name, double Counted::*number) const {
  return std::ranges::min(all(name, number));
}

std::vector<double> Results::by_seed(const std::string& name, double Counted::*number) const {
  const std::vector<double> values = all(name, number);
  std::vector<double> means;
  for (size_t at = 0; at < values.size(); at += texts_of_a_seed_) {
    means.push_back(mean_of(std::span(values).subspan(at, texts_of_a_seed_)));
  }
  return means;
}

std::vector<double> Results::gap(const std::string& a, const std::string& b, double Counted::*number) const {
  return differences(by_seed(a, number), by_seed(b, number));
}

void Results::show(Report& report, const std::string& book, const std::vector<Setting>& settings) const {
  Report::Rows rows;
  const auto add_row = [&](const std::string& name) {
    const auto number = [&](double Counted::*which) { return Report::Json(mean(name, which)); };
    rows.push_back({name, fmt::format("{:.1f}", mean(name, &Counted::kept)), number(&Counted::kept_mass),
                    number(&Counted::entropy), number(&Counted::surprise), number(&Counted::distinct),
                    number(&Counted::repeated), nullptr});
    if (name == book) return;
    rows.back().back() = shown(paired_interval(all(name, &Counted::repeated), all(book, &Counted::repeated)));
  };
  add_row(book);
  train::LineChart chart{.title = "Texts by temperature",
                         .x_label = "temperature",
                         .y_label = "nats for each token",
                         .series = {{"−ln p of the text", {}}, {"entropy of what it is drawn from", {}}},
                         .references = {{"−ln p of the book", mean(book, &Counted::surprise)}}};
  for (const Setting& setting : settings) {
    add_row(setting.name);
    if (cuts(setting.options)) continue;
    const double t = setting.options.temperature;
    chart.series[0].points.push_back({t, mean(setting.name, &Counted::surprise)});
    chart.series[1].points.push_back({t, mean(setting.name, &Counted::entropy)});
  }
  report.table(fmt::format("{} outputs for each setting, and the book", texts_.at(book).size()),
               {"drawn", "tokens kept", "probability kept", "entropy", "−ln p", "distinct 4-grams", "repeated 8-grams",
                "more than the book"},
               rows);
  report.picture("temperature.svg", chart);
}

}  // namespace folio::experiments
