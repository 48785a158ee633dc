#include "experiments/17_quantization/study.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

#include "experiments/17_quantization/outliers.h"
#include "experiments/17_quantization/rounding.h"

namespace folio::experiments {

std::string name_of(core::DType type) { return std::string(core::info(type).name); }

std::string kind_of(const core::TensorSpec& spec) {
  const size_t end = spec.gguf_name.rfind('.');
  const size_t begin = spec.gguf_name.rfind('.', end - 1);
  return begin == std::string::npos ? spec.gguf_name.substr(0, end) : spec.gguf_name.substr(begin + 1, end - begin - 1);
}

std::map<std::string, std::vector<float>> by_kind(const core::StoredModel& model) {
  std::map<std::string, std::vector<float>> kinds;
  const auto manifest = core::tensor_manifest(model.config);
  for (size_t t = 0; t < manifest.size(); ++t) {
    if (manifest[t].shape.size() < 2) continue;
    const std::vector<float> values = core::to_floats(model.tensors[t]);
    auto& all = kinds[kind_of(manifest[t])];
    all.insert(all.end(), values.begin(), values.end());
  }
  return kinds;
}

void plant_outliers(Study& s) {
  const std::vector<float> values = by_kind(s.exact).at("ffn_down");
  Report::Rows rows;
  std::map<core::DType, train::LineChart::Series> lines;
  std::map<core::DType, double> last;
  for (const double size : {2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0}) {
    std::vector<Report::Json> row{fmt::format("{} x rms", size)};
    for (const core::DType type : {core::DType::F16, core::DType::Q8_0, core::DType::Q4_1, core::DType::Q4_0}) {
      last[type] = error_beside_outliers(values, size, type);
      row.emplace_back(100.0 * last[type]);
      lines[type].points.push_back({size, 100.0 * last[type]});
    }
    rows.push_back(std::move(row));
  }
  s.report.table("One outlier in each group: error of the other 31 values, %",
                 {"outlier", "F16", "Q8_0", "Q4_1", "Q4_0"}, rows);
  s.report.check_below("F16 with outliers of 128: error", last[core::DType::F16], 0.001);
  s.report.check_above("Q4_0 with outliers of 128: error", last[core::DType::Q4_0], 0.9);
  s.report.check_below("Q8_0 with outliers of 128: error", last[core::DType::Q8_0], 0.5);
  train::LineChart chart{.title = "What an outlier does to the other 31 values of its group",
                         .x_label = "the outlier's size, in root mean squares of the others",
                         .y_label = "relative error of the others, %",
                         .log_x = true,
                         .log_y = true};
  for (auto& [type, line] : lines) {
    line.name = name_of(type);
    chart.series.push_back(line);
  }
  s.report.picture("outliers.svg", chart);

  // A model that computes the same function as s.exact, with an outlier in each group of w2.
  const core::StoredModel planted = with_weights(s.exact, with_outliers(core::to_weights(s.exact), 64.0F));
  std::map<core::DType, Interval> cost;
  rows.clear();
  for (const core::DType type :
       {core::DType::F32, core::DType::F16, core::DType::Q8_0, core::DType::Q4_1, core::DType::Q4_0}) {
    cost[type] = s.cost(as_floats(in_type(planted, type)));
    rows.push_back({name_of(type), shown(cost[type], 4)});
  }
  s.report.table("The same function with an outlier of 64 in each group of w2", {"type", "loss - F32's"}, rows);
  s.report.check_below("with outliers in F32: what they change in the loss", std::abs(cost[core::DType::F32].mean),
                       1e-5);
  s.report.check_above("with outliers in Q4_0: what they cost", cost[core::DType::Q4_0].mean, 0.05);
}

void shift_groups(Study& s) {
  const std::vector<float> values = by_kind(s.exact).at("ffn_down");
  Report::Rows rows;
  std::array<double, 2> first{}, last{};  // errors of Q4_0 and Q4_1 at the first and the last shift
  for (const double shift : {0.0, 1.0, 2.0, 4.0, 8.0}) {
    last = {error_of_shifted(values, shift, core::DType::Q4_0), error_of_shifted(values, shift, core::DType::Q4_1)};
    if (shift == 0.0) first = last;
    rows.push_back({fmt::format("{} std", shift), 100.0 * last[0], 100.0 * last[1], last[0] / last[1]});
  }
  s.report.table("Groups shifted off their center: error in % of a group's standard deviation",
                 {"mean", "Q4_0", "Q4_1", "Q4_0 / Q4_1"}, rows);
  s.report.check_above("Q4_0 with groups shifted by 8 std: its error, as a multiple of Q4_1's", last[0] / last[1], 3.0);
  s.report.check_below("Q4_1: how much the shift changes its error, as a share", std::abs(last[1] / first[1] - 1.0),
                       0.1);
}

}  // namespace folio::experiments
