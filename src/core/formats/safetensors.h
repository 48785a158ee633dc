// safetensors (https://github.com/huggingface/safetensors): a JSON header, then the tensors' bytes. Models are written
// with every tensor aligned to 64 bytes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "core/mapped_file.h"
#include "core/tensor_view.h"

namespace folio::core {

class SafetensorsFile {
 public:
  /// Maps and parses the file. Throws Error unless it is a valid safetensors file.
  explicit SafetensorsFile(const std::filesystem::path& path);

  [[nodiscard]] const MappedFile& mapped() const { return file_; }
  [[nodiscard]] const std::filesystem::path& path() const { return file_.path(); }
  [[nodiscard]] const std::vector<TensorView>& tensors() const { return tensors_; }
  [[nodiscard]] const std::map<std::string, std::string>& metadata() const { return metadata_; }

  /// Returns the tensor with this name, or null if there is none.
  [[nodiscard]] const TensorView* find_tensor(const std::string& name) const;

 private:
  MappedFile file_;
  std::vector<TensorView> tensors_;  // sorted by the position of their data in the file
  std::map<std::string, std::string> metadata_;
};

/// Writes the tensors, in the given order, atomically to `path`. Each begins at a multiple of `alignment` bytes, a
/// power of two up to 64. The format forbids gaps, so they are filled by tensors "__pad__.N". Throws Error for a
/// repeated name or a tensor that the format cannot store.
void write_safetensors(const std::filesystem::path& path, const TensorStream& stream,
                       const std::map<std::string, std::string>& metadata = {{"format", "pt"}},
                       uint64_t alignment = 64);

}  // namespace folio::core
