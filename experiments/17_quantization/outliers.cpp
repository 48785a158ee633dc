#include "experiments/17_quantization/outliers.h"

#include <algorithm>
#include <cmath>
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

double error_beside_outliers(std::vector<float> values, double size, core::DType type) {
  for_groups(values, [&](std::span<float> group) { group[0] = static_cast<float>(size * rms(group.subspan(1))); });
  std::vector<float> after = rounded(values, type);
  const auto others = [](std::vector<float>& all) {
    for_groups(all, [](std::span<float> group) { group[0] = 0.0F; });
    return all;
  };
  return relative_error(others(values), others(after));
}

double error_of_shifted(std::vector<float> values, double shift, core::DType type) {
  for_groups(values, [&](std::span<float> group) {
    const double m = mean(group);
    const double d = std::max(deviation(group), 1e-30);
    for (float& v : group) v = static_cast<float>((v - m) / d + shift);
  });
  return relative_error(values, rounded(values, type)) * rms(values);
}

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

}  // namespace folio::experiments
