#include "experiments/17_quantization/outliers.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <span>

#include "core/manifest.h"
#include "experiments/17_quantization/rounding.h"

namespace folio::experiments {
namespace {

constexpr size_t kGroupSize = 32;

double rms(std::span<const float> values) {
  double sum = 0.0;
  for (const float v : values) sum += static_cast<double>(v) * static_cast<double>(v);
  return std::sqrt(sum / static_cast<double>(values.size()));
}

double mean(std::span<const float> values) {
  double sum = 0.0;
  for (const float v : values) sum += static_cast<double>(v);
  return sum / static_cast<double>(values.size());
}

double deviation(std::span<const float> values) {
  const double m = mean(values);
  return std::sqrt(std::max(0.0, std::pow(rms(values), 2) - m * m));
}

template <typename OfGroup>
void for_groups(std::vector<float>& values, OfGroup of_group) {
  for (size_t i = 0; i + kGroupSize <= values.size(); i += kGroupSize)
    of_group(std::span(values).subspan(i, kGroupSize));
}

// Sets the first value of each group of 32 to `size` times the root mean square of the other 31, quantizes to `type`,
// and returns the relative error of the other values of all groups.
double error_beside_outliers(std::vector<float> values, double size, core::DType type) {
  for_groups(values, [&](std::span<float> group) { group[0] = static_cast<float>(size * rms(group.subspan(1))); });
  std::vector<float> after = rounded(values, type);
  const auto others = [](std::vector<float>& all) {
    for_groups(all, [](std::span<float> group) { group[0] = 0.0F; });
    return all;
  };
  return relative_error(others(values), others(after));
}

// Normalizes each group of 32 to standard deviation 1 and mean `shift`, quantizes to `type`, and returns the root mean
// square error, in standard deviations.
double error_of_shifted(std::vector<float> values, double shift, core::DType type) {
  for_groups(values, [&](std::span<float> group) {
    const double m = mean(group);
    const double d = std::max(deviation(group), 1e-30);
    for (float& v : group) v = static_cast<float>((v - m) / d + shift);
  });
  return relative_error(values, rounded(values, type)) * rms(values);
}

// Returns weights with outliers in w2 that compute the same function: in each layer, every 32nd row of w3 is divided by
// `factor`, a power of two, and the matching column of w2 is multiplied by it.
core::Weights with_outliers(core::Weights weights, float factor) {
  const auto manifest = core::tensor_manifest(weights.config);
  const auto dim = static_cast<size_t>(weights.config.dim);
  const auto hidden = static_cast<size_t>(weights.config.hidden_dim);
  for (size_t t = 0; t < manifest.size(); ++t) {
    std::vector<float>& w = weights.tensors[t];
    for (size_t j = 0; j < hidden; j += kGroupSize) {
      for (size_t i = 0; i < dim; ++i) {
        if (manifest[t].role == core::Role::W3) w[j * dim + i] /= factor;
        if (manifest[t].role == core::Role::W2) w[i * hidden + j] *= factor;
      }
    }
  }
  return weights;
}

}  // namespace

GroupShape shape_of(const std::vector<float>& values) {
  GroupShape shape;
  double groups = 0.0;
  std::vector<float> copy = values;
  for_groups(copy, [&](std::span<float> group) {
    const double size = rms(group);
    if (size == 0.0) return;
    double largest = 0.0;
    for (const float v : group) largest = std::max(largest, std::abs(static_cast<double>(v)) / size);
    shape.largest = std::max(shape.largest, largest);
    shape.typical += largest;
    shape.off_centre += std::abs(mean(group)) / deviation(group);
    ++groups;
  });
  shape.typical /= groups;
  shape.off_centre /= groups;
  return shape;
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
