#include "core/tensor_view.h"

#include <array>
#include <set>

#include "core/error.h"

namespace folio::core {
namespace {

// In the order of the enum. Columns: type, name, GGUF type number, safetensors name, elements per block, bytes per
// block, file type. Block sizes are from ggml-common.h.
constexpr std::array kTypes{
    DTypeInfo{DType::F32, "F32", 0, "F32", 1, 4},         DTypeInfo{DType::F16, "F16", 1, "F16", 1, 2, 1},
    DTypeInfo{DType::BF16, "BF16", 30, "BF16", 1, 2, 32}, DTypeInfo{DType::Q4_0, "Q4_0", 2, "", 32, 18, 2},
    DTypeInfo{DType::Q4_1, "Q4_1", 3, "", 32, 20, 3},     DTypeInfo{DType::Q5_0, "Q5_0", 6, "", 32, 22, 8},
    DTypeInfo{DType::Q5_1, "Q5_1", 7, "", 32, 24, 9},     DTypeInfo{DType::Q8_0, "Q8_0", 8, "", 32, 34, 7},
    DTypeInfo{DType::Q2_K, "Q2_K", 10, "", 256, 84},      DTypeInfo{DType::Q3_K, "Q3_K", 11, "", 256, 110},
    DTypeInfo{DType::Q4_K, "Q4_K", 12, "", 256, 144, 15}, DTypeInfo{DType::Q5_K, "Q5_K", 13, "", 256, 176, 17},
    DTypeInfo{DType::Q6_K, "Q6_K", 14, "", 256, 210, 18}, DTypeInfo{DType::Q8_K, "Q8_K", 15, "", 256, 292},
    DTypeInfo{DType::MXFP4, "MXFP4", 39, "", 32, 17},     DTypeInfo{DType::I8, "I8", 24, "I8", 1, 1},
    DTypeInfo{DType::I16, "I16", 25, "I16", 1, 2},        DTypeInfo{DType::I32, "I32", 26, "I32", 1, 4},
    DTypeInfo{DType::I64, "I64", 27, "I64", 1, 8},        DTypeInfo{DType::F64, "F64", 28, "F64", 1, 8},
    DTypeInfo{DType::U8, "U8", -1, "U8", 1, 1},
};

}  // namespace

const DTypeInfo& info(DType type) { return kTypes.at(static_cast<size_t>(type)); }

std::optional<DType> dtype_from_ggml(uint32_t id) {
  for (const DTypeInfo& candidate : kTypes) {
    if (candidate.ggml_id >= 0 && static_cast<uint32_t>(candidate.ggml_id) == id) return candidate.type;
  }
  return std::nullopt;
}

std::optional<DType> dtype_from_safetensors(std::string_view name) {
  for (const DTypeInfo& candidate : kTypes) {
    if (!candidate.safetensors.empty() && candidate.safetensors == name) return candidate.type;
  }
  return std::nullopt;
}

std::string shape_string(std::span<const int64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape.begin(), shape.end(), ", "));
}

std::optional<uint64_t> tensor_bytes(DType type, std::span<const int64_t> shape) {
  const DTypeInfo& t = info(type);
  uint64_t elements = 1;
  for (const int64_t d : shape) {
    if (d < 0 || __builtin_mul_overflow(elements, static_cast<uint64_t>(d), &elements)) return std::nullopt;
  }
  const uint64_t row = shape.empty() ? 1 : static_cast<uint64_t>(shape.back());
  uint64_t bytes = 0;
  if (row % t.block_elements != 0 || __builtin_mul_overflow(elements / t.block_elements, t.block_bytes, &bytes)) {
    return std::nullopt;
  }
  return bytes;
}

TensorView rows_of(const TensorView& tensor, int64_t first, int64_t count) {
  const size_t row = tensor.bytes.size() / static_cast<size_t>(tensor.shape[0]);
  TensorView rows = tensor;
  rows.shape[0] = count;
  rows.bytes = tensor.bytes.subspan(static_cast<size_t>(first) * row, static_cast<size_t>(count) * row);
  return rows;
}

TensorStream::TensorStream(std::vector<TensorView> views) : tensors(std::move(views)) {
  bytes = [sources = tensors](size_t index) { return sources[index].bytes; };
}

void require_writable(const std::vector<TensorView>& tensors) {
  std::set<std::string_view> names;
  for (const TensorView& t : tensors) {
    require(names.insert(t.name).second, "duplicate tensor {}", printable(t.name));
    require(tensor_bytes(t.type, t.shape).has_value(), "tensor {} has shape {}, which is not valid for type {}",
            printable(t.name), shape_string(t.shape), info(t.type).name);
  }
}

std::span<const std::byte> checked_bytes(const TensorStream& stream, size_t index) {
  const TensorView& t = stream.tensors[index];
  const auto bytes = stream.bytes(index);
  require(tensor_bytes(t.type, t.shape) == bytes.size(), "tensor {} of shape {} and type {} has {} bytes",
          printable(t.name), shape_string(t.shape), info(t.type).name, bytes.size());
  return bytes;
}

}  // namespace folio::core
