#include "core/formats/adapter_files.h"

namespace folio::core {

Adapter read_adapter(const std::filesystem::path& path, const ModelConfig& config, float factor) {
  std::error_code error;
  if (std::filesystem::is_regular_file(path, error)) return read_gguf_adapter(path, config, factor);
  return read_peft_adapter(path, config, factor);
}

}  // namespace folio::core
