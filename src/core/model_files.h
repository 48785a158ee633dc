// A model's configuration and weights in the two layouts that Folio writes: one GGUF file, and a Hugging Face
// directory. Tokenizers travel beside them: data/ turns one into GgufMetadata or JSON files.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "core/gguf.h"
#include "core/manifest.h"
#include "core/model_config.h"

namespace folio::core {

/// The configuration in a GGUF of architecture `llama`. Throws Error that names what is missing or not supported.
[[nodiscard]] ModelConfig config_from_gguf(const GgufFile& file);
[[nodiscard]] GgufMetadata config_to_gguf(const ModelConfig& config, const std::string& model_name);

/// Checks that the file holds the tensors of `config`, each with the manifest's shape, and no others.
/// Returns the views in the manifest's order.
[[nodiscard]] std::vector<TensorView> manifest_tensors(const GgufFile& file, const ModelConfig& config);

/// config.json of a Hugging Face Llama, as text, and its inverse.
[[nodiscard]] std::string config_to_hf_json(const ModelConfig& config, int64_t end_of_text);
[[nodiscard]] ModelConfig config_from_hf_json(const std::filesystem::path& path);

/// All weights of a model, F32, in the manifest's order and with adjacent RoPE pairs.
struct Weights {
  ModelConfig config;
  std::vector<std::vector<float>> tensors;
};

/// config.json and model.safetensors of a directory, and back. Wq and Wk are permuted here and nowhere else.
[[nodiscard]] Weights read_hf_directory(const std::filesystem::path& directory);
void write_hf_directory(const std::filesystem::path& directory, const Weights& weights, int64_t end_of_text);

/// One GGUF with F32 tensors, written atomically. `tokenizer` is appended to the metadata.
void write_model_gguf(const std::filesystem::path& path, const Weights& weights, const std::string& model_name,
                      const GgufMetadata& tokenizer);

}  // namespace folio::core
