// A view of a named tensor in a file or in memory: its type, shape and bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace folio::core {

/// Element types of stored tensors: numbers, and GGUF's block types (ggml_type), which quantize elements in blocks.
enum class DType {
  F32,
  F16,
  BF16,
  Q4_0,
  Q4_1,
  Q5_0,
  Q5_1,
  Q8_0,
  Q2_K,
  Q3_K,
  Q4_K,
  Q5_K,
  Q6_K,
  Q8_K,
  MXFP4,
  I8,
  I16,
  I32,
  I64,
  F64,
  U8
};

struct DTypeInfo {
  DType type;
  std::string_view name;         ///< such as "F32" or "Q8_0"
  int32_t ggml_id;               ///< number of the type in GGUF (ggml_type); -1: not a GGUF type
  std::string_view safetensors;  ///< name in safetensors, or "" if there is none
  uint64_t block_elements;       ///< number of elements per block
  uint64_t block_bytes;
  uint32_t file_type = 0;  ///< llama.cpp's number (llama_ftype) of a file with this type; for K types, of its "Medium"
};

[[nodiscard]] const DTypeInfo& info(DType type);
[[nodiscard]] std::optional<DType> dtype_from_ggml(uint32_t id);
[[nodiscard]] std::optional<DType> dtype_from_safetensors(std::string_view name);

struct TensorView {
  std::string name;
  DType type = DType::F32;
  std::vector<int64_t> shape;  ///< row-major, slowest dimension first, as in PyTorch
  std::span<const std::byte> bytes;
};

/// Makes `values` the bytes of `tensor`, and appends their owner to `storage`.
template <typename T>
void store(std::vector<T> values, TensorView& tensor, std::vector<std::shared_ptr<const void>>& storage) {
  const auto owner = std::make_shared<const std::vector<T>>(std::move(values));
  tensor.bytes = std::as_bytes(std::span(*owner));
  storage.push_back(owner);
}

/// Returns the smallest multiple of `alignment` (a power of two) that is at least `offset`.
[[nodiscard]] inline uint64_t aligned(uint64_t offset, uint64_t alignment) {
  return (offset + alignment - 1) & ~(alignment - 1);
}

/// Returns a shape as text, such as "[32, 128]".
[[nodiscard]] std::string shape_string(std::span<const int64_t> shape);

/// Returns the size of a tensor in bytes, or nullopt if the size overflows or a row is not a whole number of blocks.
[[nodiscard]] std::optional<uint64_t> tensor_bytes(DType type, std::span<const int64_t> shape);

/// Returns rows [first, first + count) of the tensor. Rows must be whole blocks.
[[nodiscard]] TensorView rows_of(const TensorView& tensor, int64_t first, int64_t count);

/// Tensors to be written to a file. A tensor's bytes are requested only when it is written, and only once, so that only
/// one converted tensor is in memory at a time.
struct TensorStream {
  using Bytes = std::function<std::span<const std::byte>(size_t index)>;

  /// Makes a stream of tensors whose bytes are those of the views.
  TensorStream(std::vector<TensorView> views);  // NOLINT: implicit on purpose
  TensorStream(std::initializer_list<TensorView> views) : TensorStream(std::vector(views)) {}
  TensorStream(std::vector<TensorView> headers, Bytes source) : tensors(std::move(headers)), bytes(std::move(source)) {}

  std::vector<TensorView> tensors;  ///< names, types and shapes; the field `bytes` is unused
  Bytes bytes;                      ///< returns a tensor's bytes, which are valid until the next call
};

/// Throws Error that names the tensor if a name is repeated, or if a shape and type have no valid size in bytes.
void require_writable(const std::vector<TensorView>& tensors);

/// Returns the bytes of tensor `index`. Throws Error that names the tensor if their number does not match its
/// type and shape.
[[nodiscard]] std::span<const std::byte> checked_bytes(const TensorStream& stream, size_t index);

}  // namespace folio::core
