// GGUF v3 (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md): metadata and tensors in one mapped file. A model
// split by llama.cpp's gguf-split has several files; the first, NAME-00001-of-00003.gguf, has the metadata. The reader
// checks every size against the file's length before it allocates memory or makes a view. In the std::variants below,
// the index of an alternative is the number of its type in the file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/mapped_file.h"
#include "core/tensor_view.h"

namespace folio::core {

class OutputFile;

/// Returns true if the file begins with GGUF's magic number. Throws Error if it cannot be read or is empty.
[[nodiscard]] bool is_gguf(const std::filesystem::path& path);

struct GgufArray {
  std::variant<std::vector<uint8_t>, std::vector<int8_t>, std::vector<uint16_t>, std::vector<int16_t>,
               std::vector<uint32_t>, std::vector<int32_t>, std::vector<float>, std::vector<bool>,
               std::vector<std::string>, std::vector<GgufArray>, std::vector<uint64_t>, std::vector<int64_t>,
               std::vector<double>>
      items;
  [[nodiscard]] size_t size() const;
  bool operator==(const GgufArray&) const = default;
};

using GgufValue = std::variant<uint8_t, int8_t, uint16_t, int16_t, uint32_t, int32_t, float, bool, std::string,
                               GgufArray, uint64_t, int64_t, double>;
using GgufMetadata = std::vector<std::pair<std::string, GgufValue>>;

class GgufFile {
 public:
  /// Maps and parses the file. If it is the first file of a split model, also reads the others. Throws Error if a file
  /// is missing or is not a valid GGUF v2 or v3.
  explicit GgufFile(const std::filesystem::path& path);

  [[nodiscard]] const std::filesystem::path& path() const { return file_.path(); }
  [[nodiscard]] const GgufMetadata& metadata() const { return metadata_; }
  [[nodiscard]] const std::vector<TensorView>& tensors() const { return tensors_; }
  [[nodiscard]] uint64_t size() const;  ///< total bytes of all parts
  /// Returns the mapped file, followed by the other parts of a split model.
  [[nodiscard]] std::vector<const MappedFile*> mapped() const;

  [[nodiscard]] const GgufValue* find(const std::string& key) const;
  /// Return the value of `key`. Throw Error if it has another type, or if it is missing and there is no fallback.
  [[nodiscard]] int64_t integer(const std::string& key, std::optional<int64_t> fallback = {}) const;
  [[nodiscard]] float real(const std::string& key, std::optional<float> fallback = {}) const;
  [[nodiscard]] bool boolean(const std::string& key, std::optional<bool> fallback = {}) const;
  [[nodiscard]] const std::string& string(const std::string& key) const;
  template <typename Item>  // std::string, float or int32_t
  [[nodiscard]] const std::vector<Item>& list(const std::string& key) const;

  /// Returns the tensor with this name, or null if there is none.
  [[nodiscard]] const TensorView* find_tensor(const std::string& name) const;

 private:
  struct OneFile {};
  GgufFile(const std::filesystem::path& path, OneFile);
  template <typename T>
  const T* get(const std::string& key) const {  // null if there is no such key, or its value has another type
    const GgufValue* value = find(key);
    return value == nullptr ? nullptr : std::get_if<T>(value);
  }
  void read_parts(int64_t count);

  MappedFile file_;
  std::vector<std::unique_ptr<const GgufFile>> parts_;  ///< parts of a split model after the first
  GgufMetadata metadata_;
  std::vector<TensorView> tensors_;
  std::map<std::string, size_t> key_index_;
  std::map<std::string, size_t> tensor_index_;
};

/// Writes a GGUF v3 file with the tensors in the given order, aligned to 32 bytes, the format's default. Throws Error
/// for a repeated key or name, or a tensor that the format cannot store.
void write_gguf(OutputFile& out, GgufMetadata metadata, const TensorStream& stream);

}  // namespace folio::core
