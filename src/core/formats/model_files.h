// A model from any file that is read here, told apart by what is in it: a Hugging Face directory, a GGUF, a llama2.c
// file. Tokenizers travel beside them: see data/tokenizers/tokenizer_files.h.
#pragma once

#include <filesystem>

#include "core/formats/gguf_model.h"
#include "core/formats/hf_model.h"
#include "core/formats/llama2c.h"
#include "core/weights.h"

namespace folio::core {

/// Throws Error (what, where, remedy) on anything that is not a sound Llama in one of the formats.
[[nodiscard]] StoredModel read_model(const std::filesystem::path& path);

}  // namespace folio::core
