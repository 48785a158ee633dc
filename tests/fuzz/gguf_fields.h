// Parses a GGUF file into fields that a mutator can change one by one, and serializes them. Shares no code with
// src/core's reader except the table of element types. Accepts any field values, as long as the file has the layout of
// a GGUF.
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

/// Returns the size in bytes of a scalar of this GGUF type, or 0 for strings, arrays and unknown types.
[[nodiscard]] size_t gguf_scalar_bytes(uint32_t type);

struct GgufFieldValue {
  uint32_t type = 0;
  std::string bytes;                  ///< a scalar's bytes as in the file, or a string without its length
  uint32_t item_type = 0;             ///< type of an array's items
  std::vector<GgufFieldValue> items;  ///< an array's items
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
  std::string data;  ///< tensor data: from the first aligned byte after the header to the end of the file
};

struct GgufBytes {
  std::string bytes;
  /// Offset in `bytes` and size in bytes of the magic, the version, and each count, length, type, dimension and tensor
  /// offset.
  std::vector<std::pair<size_t, size_t>> numbers;
};

/// Returns the fields of a file with the contents `bytes`, or no value if it doesn't have the layout of a GGUF.
[[nodiscard]] std::optional<GgufFields> parse_gguf_fields(std::string_view bytes);
[[nodiscard]] GgufBytes serialize(const GgufFields& fields);

/// Returns general.alignment if it is a power of two of at most 4096, else 32.
[[nodiscard]] uint64_t alignment_of(const GgufFields& fields);

/// Sets the tensors' offsets to consecutive aligned ones, and resizes the data to fit, but to at most `max_data` bytes.
void lay_out(GgufFields& fields, size_t max_data);

}  // namespace folio::fuzz
