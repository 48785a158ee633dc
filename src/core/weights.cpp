#include "core/weights.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "core/error.h"
#include "core/float16.h"
#include "core/mapped_file.h"
#include "core/quantize.h"
#include "core/quants.h"
#include "core/thread_pool.h"

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
      fail("tensor {} contains {:g}, which is too large for {}; use --type bf16 or f32", tensor.name, from[i],
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
  if (type != DType::F32) return quantize(type, values, printable(tensor.name));
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

// Returns the tensor's bytes converted to `type`. Threads convert pieces of whole blocks in parallel.
Bytes converted(const TensorView& tensor, DType type, ThreadPool& pool) {
  constexpr size_t kPiece = 64 * 256;
  const auto bytes_of = [](DType t, size_t elements) {
    return elements / info(t).block_elements * info(t).block_bytes;
  };
  const size_t count = tensor.bytes.size() / info(tensor.type).block_bytes * info(tensor.type).block_elements;
  Bytes result(bytes_of(type, count));
  pool.parallel_for(count, kPiece, [&](size_t begin, size_t end) {
    for (size_t at = begin; at < end; at += kPiece) {
      TensorView piece = tensor;
      piece.bytes = tensor.bytes.subspan(bytes_of(tensor.type, at), bytes_of(tensor.type, std::min(kPiece, end - at)));
      std::ranges::copy(converted(piece, type), result.begin() + static_cast<ptrdiff_t>(bytes_of(type, at)));
    }
  });
  return result;
}

}  // namespace

std::string_view format_name(ModelFormat format) {
  constexpr std::array<std::string_view, 5> kNames{"GGUF", "Hugging Face", "llama2.c v0", "llama2.c v1", "llama2.c v2"};
  return kNames.at(static_cast<size_t>(format));
}

bool is_llama2c(ModelFormat format) { return format >= ModelFormat::Llama2cV0; }

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

void require_weight_type(const TensorView& tensor, const std::string& where) {
  const DType type = tensor.type;
  require(type == DType::F32 || type == DType::F16 || type == DType::BF16 || quant_info(type) != nullptr,
          "{}{}tensor {} has type {}, expected F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K, Q6_K or MXFP4",
          where, where.empty() ? "the " : ": ", printable(tensor.name), info(type).name);
}

std::vector<float> to_floats(const TensorView& tensor) {
  require_weight_type(tensor, "");
  const DTypeInfo& type = info(tensor.type);
  std::vector<float> values(tensor.bytes.size() / type.block_bytes * type.block_elements);
  if (tensor.type == DType::F32) {
    std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  } else if (tensor.type == DType::F16) {
    widen(tensor.bytes, values, f16_to_float);
  } else if (tensor.type == DType::BF16) {
    widen(tensor.bytes, values, bf16_to_float);
  } else {
    dequantize(tensor.type, tensor.bytes, values);
  }
  return values;
}

Weights to_weights(const StoredModel& model) {
  Weights weights{.config = model.config};
  for (const TensorView& tensor : model.tensors) weights.tensors.push_back(to_floats(tensor));
  return weights;
}

bool StoredModel::maps(const TensorView& tensor) const {
  return std::ranges::any_of(files, [&](const auto& file) { return file->contains(tensor.bytes); });
}

void StoredModel::release(const TensorView& tensor) const {
  for (const auto& file : files) file->release(tensor.bytes);
}

StoredModel with_vocabulary(const StoredModel& model, std::span<const int32_t> source_row) {
  StoredModel result = model;
  result.config.vocab_size = static_cast<int64_t>(source_row.size());
  const auto manifest = tensor_manifest(model.config);
  for (size_t i = 0; i < manifest.size(); ++i) {
    if (manifest[i].role != Role::TokenEmbedding && manifest[i].role != Role::Output) continue;
    TensorView& tensor = result.tensors[i];
    const size_t row_bytes = tensor.bytes.size() / static_cast<size_t>(model.config.vocab_size);
    Bytes rows;
    rows.reserve(source_row.size() * row_bytes);
    for (const int32_t row : source_row) {
      require(row >= 0 && row < model.config.vocab_size, "{}: row {} is outside the vocabulary of {}", model.path, row,
              model.config.vocab_size);
      const auto source = tensor.bytes.subspan(static_cast<size_t>(row) * row_bytes, row_bytes);
      rows.insert(rows.end(), source.begin(), source.end());
    }
    tensor.shape[0] = result.config.vocab_size;
    store(std::move(rows), tensor, result.storage);
  }
  return result;
}

StoredModel with_layers(StoredModel model, int64_t n_layers) {
  const auto manifest = tensor_manifest(model.config);
  std::vector<TensorView> kept;
  for (size_t i = 0; i < manifest.size(); ++i) {
    if (manifest[i].layer < n_layers) kept.push_back(model.tensors[i]);
  }
  model.tensors = std::move(kept);
  model.config.n_layers = n_layers;
  model.config.n_tokens_ahead = 0;
  return model;
}

TensorStream stream_as(TensorStream stream, DType type) {
  std::vector<DType> types;
  for (const TensorView& tensor : stream.tensors) types.push_back(tensor.shape.size() > 1 ? type : DType::F32);
  return stream_as(std::move(stream), types);
}

TensorStream stream_as(TensorStream stream, std::span<const DType> types) {
  std::vector<TensorView> to = stream.tensors;
  for (size_t i = 0; i < to.size(); ++i) {
    to[i].type = types[i];
    const auto block = static_cast<int64_t>(info(types[i]).block_elements);
    require(to[i].shape.back() % block == 0,
            "tensor {} of shape {} needs rows that are a multiple of {} for {}; use --type f16 or bf16",
            printable(to[i].name), shape_string(to[i].shape), block, info(types[i]).name);
  }
  const auto pool = std::make_shared<ThreadPool>();
  return {to, [from = std::move(stream), to, pool, buffer = Bytes()](size_t i) mutable {
            TensorView tensor = from.tensors[i];
            tensor.bytes = from.bytes(i);
            if (tensor.type == to[i].type) return tensor.bytes;
            buffer = converted(tensor, to[i].type, *pool);
            return std::span<const std::byte>(buffer);
          }};
}

}  // namespace folio::core
