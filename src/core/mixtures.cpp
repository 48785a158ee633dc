#include "core/mixtures.h"

#include <algorithm>
#include <array>

#include "core/manifest.h"

namespace folio::core {
namespace {

constexpr std::array kMixtures{
    Mixture{.name = "q4_k_m", .type = DType::Q4_K, .more_bits = true, .file_type = 15},
    Mixture{.name = "q5_k_m", .type = DType::Q5_K, .more_bits = true, .file_type = 17},
    Mixture{.name = "q6_k", .type = DType::Q6_K, .more_bits = false, .file_type = 18},
};

// The first and the last eighth of the layers, and each third one between.
bool has_more_bits(int64_t layer, int64_t n_layers) {
  const int64_t eighth = n_layers / 8;
  return layer < eighth || layer >= 7 * n_layers / 8 || (layer - eighth) % 3 == 2;
}

// What llama.cpp takes for a 70B model: of 80 layers whose keys and values are shared by heads, or Qwen 2.
bool is_70b(const ModelConfig& c) {
  const std::string_view architecture = info(c.family).gguf;
  const bool shared = architecture == "llama" && c.n_kv_heads != c.n_heads;
  return c.n_layers == 80 && (shared || architecture == "qwen2");
}

DType wanted(const TensorSpec& tensor, const ModelConfig& c, const Mixture& mixture) {
  const bool more = mixture.more_bits && has_more_bits(tensor.layer, c.n_layers);
  switch (tensor.role) {
    case Role::TokenEmbedding:
      return c.tie_embeddings ? DType::Q6_K : mixture.type;
    case Role::Output:
      return DType::Q6_K;
    case Role::Wv:
      if (more) return DType::Q6_K;
      return mixture.type == DType::Q4_K && is_70b(c) ? DType::Q5_K : mixture.type;
    case Role::W2:
      return more ? DType::Q6_K : mixture.type;
    default:
      return mixture.type;
  }
}

DType of_whole_blocks(DType type, int64_t row) {
  if (row % 256 == 0) return type;
  if (row % 32 != 0) return DType::F16;
  return type == DType::Q4_K ? DType::Q5_0 : type == DType::Q5_K ? DType::Q5_1 : DType::Q8_0;
}

}  // namespace

std::span<const Mixture> mixtures() { return kMixtures; }

const Mixture* find_mixture(std::string_view name) {
  const auto* const found = std::ranges::find(kMixtures, name, &Mixture::name);
  return found == kMixtures.end() ? nullptr : found;
}

std::vector<DType> mixture_types(const ModelConfig& config, const Mixture& mixture) {
  std::vector<DType> types;
  for (const TensorSpec& tensor : tensor_manifest(config)) {
    const bool matrix = tensor.shape.size() > 1;
    types.push_back(matrix ? of_whole_blocks(wanted(tensor, config, mixture), tensor.shape.back()) : DType::F32);
  }
  return types;
}

}  // namespace folio::core
