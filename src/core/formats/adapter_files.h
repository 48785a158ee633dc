// Reads an adapter from peft's directory or llama.cpp's GGUF, and the configuration of the model that it is for.
#pragma once

#include <filesystem>
#include <string>

#include "core/formats/gguf_adapter.h"
#include "core/formats/peft_adapter.h"

namespace folio::core {

/// The adapter in a directory or a file for a model of this configuration, its scale times `factor`. Throws Error as
/// read_peft_adapter and read_gguf_adapter do.
[[nodiscard]] Adapter read_adapter(const std::filesystem::path& path, const ModelConfig& config, float factor = 1.0F);

}  // namespace folio::core
