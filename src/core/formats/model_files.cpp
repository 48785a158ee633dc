#include "core/formats/model_files.h"

namespace folio::core {

StoredModel read_model(const std::filesystem::path& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return read_hf_model(path);
  return is_gguf(path) ? read_gguf_model(path) : read_llama2c(path);
}

ModelConfig read_model_config(const std::filesystem::path& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return config_from_hf_json(path / "config.json");
  return read_model(path).config;
}

}  // namespace folio::core
