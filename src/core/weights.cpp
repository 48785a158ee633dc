#include "core/weights.h"

#include <cmath>
#include <cstring>

#include "core/error.h"
#include "core/float16.h"

namespace folio::core {
namespace {

using Bytes = std::vector<std::byte>;

template <typename Convert>
void widen(std::span<const std::byte> from, std::span<float> to, Convert&& convert) {
  for (size_t i = 0; i < to.size(); ++i) {
    uint16_t half;
    std::memcpy(&half, from.data() + 2 * i, sizeof half);
    to[i] = convert(half);
  }
}

template <typename Convert>
Bytes narrowed(std::span<const float> from, const TensorView& tensor, DType type, Convert&& convert, auto&& back) {
  Bytes bytes(from.size() * sizeof(uint16_t));
  for (size_t i = 0; i < from.size(); ++i) {
    const uint16_t half = convert(from[i]);
    if (std::isinf(back(half)) && std::isfinite(from[i])) {
      fail("the tensor {} holds {:g}, which is too large for {}; take --type bf16 or f32", tensor.name, from[i],
           info(type).name);
    }
    std::memcpy(bytes.data() + sizeof half * i, &half, sizeof half);
  }
  return bytes;
}

Bytes converted(const TensorView& tensor, DType type) {
  const std::vector<float> values = to_floats(tensor);
  if (type == DType::F16) return narrowed(values, tensor, type, float_to_f16, f16_to_float);
  if (type == DType::BF16) return narrowed(values, tensor, type, float_to_bf16, bf16_to_float);
  require(type == DType::F32, "tensors are not written as {} here", info(type).name);
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

}  // namespace

std::vector<TensorView> Weights::views() const {
  const auto manifest = tensor_manifest(config);
  std::vector<TensorView> views;
  for (size_t i = 0; i < manifest.size(); ++i) {
    views.push_back({.name = manifest[i].gguf_name,
                     .type = DType::F32,
                     .shape = manifest[i].shape,
                     .bytes = std::as_bytes(std::span(tensors.at(i)))});
  }
  return views;
}

bool is_weight_type(DType type) { return type == DType::F32 || type == DType::F16 || type == DType::BF16; }

std::vector<float> to_floats(const TensorView& tensor) {
  const DTypeInfo& type = info(tensor.type);
  require(is_weight_type(tensor.type), "the tensor {} has type {}, but F32, F16 or BF16 is needed here",
          printable(tensor.name), type.name);
  std::vector<float> values(tensor.bytes.size() / type.block_bytes);
  if (tensor.type == DType::F32) std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  if (tensor.type == DType::F16) widen(tensor.bytes, values, f16_to_float);
  if (tensor.type == DType::BF16) widen(tensor.bytes, values, bf16_to_float);
  return values;
}

Weights to_weights(const StoredModel& model) {
  Weights weights{.config = model.config, .tensors = {}};
  for (const TensorView& tensor : model.tensors) weights.tensors.push_back(to_floats(tensor));
  return weights;
}

StoredModel with_vocabulary(const StoredModel& model, std::span<const int32_t> source_row) {
  StoredModel result = model;
  result.config.vocab_size = static_cast<int64_t>(source_row.size());
  const auto manifest = tensor_manifest(model.config);
  for (size_t i = 0; i < manifest.size(); ++i) {
    if (manifest[i].role != Role::TokenEmbedding && manifest[i].role != Role::Output) continue;
    TensorView& tensor = result.tensors[i];
    const size_t row_bytes = tensor.bytes.size() / static_cast<size_t>(model.config.vocab_size);
    auto rows = std::make_shared<Bytes>();
    rows->reserve(source_row.size() * row_bytes);
    for (const int32_t row : source_row) {
      require(row >= 0 && row < model.config.vocab_size, "{}: row {} is not one of the vocabulary's {}", model.path,
              row, model.config.vocab_size);
      const auto source = tensor.bytes.subspan(static_cast<size_t>(row) * row_bytes, row_bytes);
      rows->insert(rows->end(), source.begin(), source.end());
    }
    tensor.shape[0] = result.config.vocab_size;
    tensor.bytes = *rows;
    result.storage.push_back(std::move(rows));
  }
  return result;
}

TensorStream stream_as(std::vector<TensorView> tensors, DType type) {
  std::vector<TensorView> to = tensors;
  for (TensorView& tensor : to) tensor.type = tensor.shape.size() > 1 ? type : DType::F32;
  return {to, [from = std::move(tensors), to, buffer = Bytes()](size_t i) mutable {
            if (from[i].type == to[i].type) return from[i].bytes;
            buffer = converted(from[i], to[i].type);
            return std::span<const std::byte>(buffer);
          }};
}

}  // namespace folio::core
