#include "core/mixtures.h"

#include <algorithm>
#include <array>

#include "core/formats/family_files.h"
#include "core/manifest.h"

namespace folio::core {
namespace {

constexpr std::array kMixtures{
    Mixture{.name = "q4_k_m", .type = DType::Q4_K},
    Mixture{.name = "q5_k_m", .type = DType::Q5_K},
    Mixture{.name = "q6_k", .type = DType::Q6_K},
};

// Returns true for models that llama.cpp treats as 70B: 80 layers, and either Qwen 2 or Llama with grouped-query
// attention.
bool is_70b(const ModelConfig& c) {
  const std::string architecture = gguf_architecture(c.family);
  const bool shared = architecture == "llama" && c.n_kv_heads != c.n_heads && c.n_experts != 8;
  return c.n_layers == 80 && (shared || architecture == "qwen2");
}

DType preferred_type(const TensorSpec& tensor, const ModelConfig& c, const Mixture& mixture) {
  // The first and the last eighth of the layers have more bits, and every third layer in between.
  const int64_t layer = tensor.layer;
  const int64_t eighth = c.n_layers / 8;
  const bool more = layer < eighth || layer >= 7 * c.n_layers / 8 || (layer - eighth) % 3 == 2;
  const bool mixtral = c.n_experts == 8;  // llama.cpp recognizes Mixtral by its 8 experts
  const bool fused = tensor.gguf_writes_fused && (tensor.role == Role::Wq || tensor.role == Role::Wk);
  switch (fused ? Role::Wv : tensor.role) {  // llama.cpp treats a fused QKV matrix like Wv
    case Role::TokenEmbedding:
      return c.tie_embeddings ? DType::Q6_K : mixture.type;
    case Role::Output:
      return DType::Q6_K;
    case Role::Wk:
      return mixtral ? DType::Q8_0 : mixture.type;
    case Role::Wv:
      if (mixtral) return DType::Q8_0;
      if (more) return DType::Q6_K;
      return mixture.type == DType::Q4_K && is_70b(c) ? DType::Q5_K : mixture.type;
    case Role::Wo:
      return mixtral && mixture.type == DType::Q4_K ? DType::Q5_K : mixture.type;
    case Role::W2:
    case Role::ExpertW2:
      return more ? DType::Q6_K : mixture.type;
    default:
      return mixture.type;
  }
}

bool is_weight_matrix(const TensorSpec& tensor) { return tensor.is_matrix() && tensor.role != Role::Router; }

// Returns `type`, or the type to use instead if rows of `row` elements are not whole blocks of it.
DType with_fallback(DType type, int64_t row) {
  if (row % 256 == 0) return type;
  if (row % 32 != 0) return DType::F16;
  if (type == DType::Q8_0) return type;
  return type == DType::Q4_K ? DType::Q5_0 : type == DType::Q5_K ? DType::Q5_1 : DType::Q8_0;
}

}  // namespace

const Mixture* find_mixture(std::string_view name) {
  const auto* const found = std::ranges::find(kMixtures, name, &Mixture::name);
  return found == kMixtures.end() ? nullptr : found;
}

std::vector<DType> uniform_types(const ModelConfig& config, DType type) {
  const DType of_tokens = type == DType::Q4_0 || type == DType::Q4_1 ? DType::Q8_0 : type;
  std::vector<DType> types;
  for (const TensorSpec& tensor : tensor_manifest(config)) {
    const bool outside = tensor.role == Role::TokenEmbedding || tensor.role == Role::Output;
    types.push_back(!is_weight_matrix(tensor) ? DType::F32 : outside ? of_tokens : type);
  }
  return types;
}

std::vector<DType> mixture_types(const ModelConfig& config, const Mixture& mixture) {
  std::vector<DType> types;
  for (const TensorSpec& tensor : tensor_manifest(config)) {
    types.push_back(is_weight_matrix(tensor)
                        ? with_fallback(preferred_type(tensor, config, mixture), tensor.shape.back())
                        : DType::F32);
  }
  return types;
}

}  // namespace folio::core
