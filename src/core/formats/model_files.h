// Reads a model from a Hugging Face directory, a GGUF or a llama2.c file; the contents decide which it is.
// Tokenizers are read separately: see data/tokenizers/tokenizer_files.h.
#pragma once

#include <filesystem>

#include "core/formats/gguf_model.h"
#include "core/formats/hf_model.h"
#include "core/formats/llama2c.h"
#include "core/weights.h"

namespace folio::core {

/// Throws Error (what, where, remedy) unless it is a valid Llama in one of these formats.
[[nodiscard]] StoredModel read_model(const std::filesystem::path& path);

/// The configuration of such a model. Throws Error as read_model does; of a Hugging Face directory, config.json alone
/// is looked at.
[[nodiscard]] ModelConfig read_model_config(const std::filesystem::path& path);

}  // namespace folio::core
