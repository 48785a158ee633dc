// A GGUF file as a list of fields that a mutator can change one by one, and back to bytes. Shares no code with the
// reader of src/core, and accepts far more: whatever is laid out like a GGUF, true or not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace folio::fuzz {

inline constexpr uint32_t kGgufString = 8;
inline constexpr uint32_t kGgufArray = 9;
inline constexpr uint32_t kGgufTypes = 13;

/// Bytes of a scalar of that type; 0 for strings, arrays and unknown types.
[[nodiscard]] size_t gguf_scalar_bytes(uint32_t type);

struct GgufFieldValue {
  uint32_t type = 0;
  std::string bytes;                  ///< a scalar as it lies in the file, or a string's text
  uint32_t item_type = 0;             ///< of an array
  std::vector<GgufFieldValue> items;  ///< of an array
};

struct GgufFieldPair {
  std::string key;
  GgufFieldValue value;
};

struct GgufFieldTensor {
  std::string name;
  std::vector<uint64_t> dims;
  uint32_t type = 0;
  uint64_t offset = 0;
};

struct GgufFields {
  uint32_t magic = 0;
  uint32_t version = 0;
  std::vector<GgufFieldPair> pairs;
  std::vector<GgufFieldTensor> tensors;
  std::string data;  ///< from the first aligned byte behind the header to the end
};

struct GgufBytes {
  std::string bytes;
  std::vector<std::pair<size_t, size_t>> numbers;  ///< place and width of each count, length, type, dimension, offset
};

/// The fields of `bytes`, or nothing if their layout is not a GGUF's.
[[nodiscard]] std::optional<GgufFields> parse_gguf_fields(std::string_view bytes);
[[nodiscard]] GgufBytes serialize(const GgufFields& fields);

/// The power of two in general.alignment, or 32.
[[nodiscard]] uint64_t alignment_of(const GgufFields& fields);

/// Gives each tensor the next aligned offset, and makes the data as long as they need, but at most `max_data` bytes.
void lay_out(GgufFields& fields, size_t max_data);

}  // namespace folio::fuzz
