// Reads an adapter from a peft directory or a llama.cpp GGUF.
#pragma once

#include <filesystem>

#include "core/formats/gguf_adapter.h"
#include "core/formats/peft_adapter.h"

namespace folio::core {

/// Reads the adapter at `path`, a directory or a file, for a model with this configuration. Multiplies its scale by
/// `factor`. Throws Error as read_peft_adapter and read_gguf_adapter do.
[[nodiscard]] Adapter read_adapter(const std::filesystem::path& path, const ModelConfig& config, float factor = 1.0F);

}  // namespace folio::core
