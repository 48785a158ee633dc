// Reads a model from a Hugging Face directory, a GGUF or a llama2.c file. The contents determine the format. Tokenizers
// are read separately: see data/tokenizers/tokenizer_files.h.
#pragma once

#include <filesystem>

#include "core/formats/gguf_model.h"
#include "core/formats/hf_model.h"
#include "core/formats/llama2c.h"
#include "core/weights.h"

namespace folio::core {

/// Reads a model. Throws Error (what, where, remedy) unless it is valid and in one of these formats.
[[nodiscard]] StoredModel read_model(const std::filesystem::path& path);

/// Returns the configuration of a model at `path`. Throws Error as read_model does, but only reads config.json of a
/// Hugging Face directory.
[[nodiscard]] ModelConfig read_model_config(const std::filesystem::path& path);

}  // namespace folio::core
