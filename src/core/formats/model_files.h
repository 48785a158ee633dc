// Reads a model from a Hugging Face directory, a GGUF or a llama2.c file; the contents determine the format.
// data/tokenizers/tokenizer_files.h reads tokenizers.
#pragma once

#include <filesystem>

#include "core/formats/gguf_model.h"
#include "core/formats/hf_model.h"
#include "core/formats/llama2c.h"
#include "core/weights.h"

namespace folio::core {

/// Reads a model. Throws Error unless `path` is a valid Hugging Face directory, GGUF or llama2.c model.
[[nodiscard]] StoredModel read_model(const std::filesystem::path& path);

/// Returns the configuration of the model at `path`. In a Hugging Face directory, reads only config.json. Throws Error
/// if the file or directory is missing, invalid or not supported.
[[nodiscard]] ModelConfig read_model_config(const std::filesystem::path& path);

}  // namespace folio::core
