// A named tensor in a file or in memory: what it is, where its bytes are. Owns nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace folio::core {

/// Element types that are stored. Block types count their elements in blocks (GGUF's ggml_type).
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
  I8,
  I16,
  I32,
  I64,
  F64,
  U8
};

struct DTypeInfo {
  DType type;
  std::string_view name;         ///< "F32", "Q8_0", …
  int32_t ggml_id;               ///< GGUF's number, or -1
  std::string_view safetensors;  ///< safetensors' name, or ""
  uint64_t block_elements;       ///< elements that share one block
  uint64_t block_bytes;
};

[[nodiscard]] const DTypeInfo& info(DType type);
[[nodiscard]] std::optional<DType> dtype_from_ggml(uint32_t id);
[[nodiscard]] std::optional<DType> dtype_from_safetensors(std::string_view name);

struct TensorView {
  std::string name;
  DType type = DType::F32;
  std::vector<int64_t> shape;  ///< row-major, slowest dimension first, as PyTorch prints it
  std::span<const std::byte> bytes;

  /// The elements, for an F32 tensor whose bytes are aligned. Throws Error otherwise.
  [[nodiscard]] std::span<const float> floats() const;
};

/// "[32, 128]"
[[nodiscard]] std::string shape_string(std::span<const int64_t> shape);

/// The bytes of a tensor, or nothing if its size overflows or its last dimension is not whole blocks.
[[nodiscard]] std::optional<uint64_t> tensor_bytes(DType type, std::span<const int64_t> shape);

/// Throws Error that names the tensor unless all names differ and each has exactly the bytes of its shape.
void require_writable(const std::vector<TensorView>& tensors);

}  // namespace folio::core
