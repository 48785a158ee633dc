#include "experiments/17_quantization/rounding.h"

#include <cmath>
#include <memory>

#include "core/mixtures.h"

namespace folio::experiments {
namespace {

constexpr int64_t kGroup = 32;

}  // namespace

core::StoredModel in_type(const core::StoredModel& model, core::DType type) {
  std::vector<core::TensorView> flat = model.tensors;
  for (core::TensorView& tensor : flat) {
    if (tensor.shape.size() < 2) continue;
    const int64_t elements = tensor.shape[0] * tensor.shape[1];
    if (elements % kGroup == 0) tensor.shape = {elements / kGroup, kGroup};
  }
  core::StoredModel result = model;
  result.gguf = nullptr;  // the GGUF file contains the original weights
  const core::TensorStream stream = core::stream_as(std::move(flat), core::uniform_types(model.config, type));
  for (size_t i = 0; i < result.tensors.size(); ++i) {
    const auto bytes = stream.bytes(i);
    const auto copy = std::make_shared<std::vector<std::byte>>(bytes.begin(), bytes.end());
    result.tensors[i].type = stream.tensors[i].type;
    result.tensors[i].bytes = *copy;
    result.storage.push_back(copy);
  }
  return result;
}

bool whole_rows(const core::StoredModel& model) {
  for (const core::TensorView& tensor : model.tensors) {
    if (tensor.shape.size() > 1 && tensor.shape.back() % kGroup != 0) return false;
  }
  return true;
}

core::StoredModel as_floats(const core::StoredModel& model) { return with_weights(model, core::to_weights(model)); }

core::StoredModel with_weights(const core::StoredModel& model, core::Weights weights) {
  const auto owned = std::make_shared<core::Weights>(std::move(weights));
  return {model.path, model.format, owned->config, owned->views(), {owned}, nullptr};
}

std::vector<float> rounded(std::span<const float> values, core::DType type) {
  const core::TensorView view{.name = "values",
                              .type = core::DType::F32,
                              .shape = {static_cast<int64_t>(values.size()) / kGroup, kGroup},
                              .bytes = std::as_bytes(values)};
  const core::TensorStream stream = core::stream_as({view}, type);
  core::TensorView result = stream.tensors[0];
  result.bytes = stream.bytes(0);
  return core::to_floats(result);
}

double relative_error(std::span<const float> a, std::span<const float> b) {
  double error = 0.0, size = 0.0;
  for (size_t i = 0; i < a.size(); ++i) {
    error += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
    size += std::pow(static_cast<double>(a[i]), 2);
  }
  return std::sqrt(error / size);
}

}  // namespace folio::experiments
