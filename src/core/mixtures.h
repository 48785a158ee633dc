// Mixtures of block types: the matrices that suffer most from few bits get more. Which tensor gets which type is
// llama.cpp's choice without an importance matrix (llama-quant.cpp, llama_tensor_get_type).
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "core/model_config.h"
#include "core/tensor_view.h"

namespace folio::core {

struct Mixture {
  std::string_view name;  ///< "q4_k_m"
  DType type;             ///< of most matrices
  bool more_bits;  ///< Wv and W2, those of experts too, are Q6_K in the first and last eighth of the layers and in each
                   ///< third between
  uint32_t file_type;  ///< GGUF's general.file_type (llama.cpp's enum llama_ftype)
};

[[nodiscard]] std::span<const Mixture> mixtures();

/// The mixture of this name, or null.
[[nodiscard]] const Mixture* find_mixture(std::string_view name);

/// The type of each tensor of the manifest: matrices have `type`, but with Q4_0 and Q4_1 the embedding and the output
/// are Q8_0; vectors and routers are F32.
[[nodiscard]] std::vector<DType> uniform_types(const ModelConfig& config, DType type);

/// The type of each tensor of the manifest: vectors and routers are F32, and the output, or an embedding that is also
/// the output, is Q6_K. A matrix whose rows are not whole blocks of 256 is Q5_0 instead of Q4_K, Q5_1 instead of Q5_K
/// and Q8_0 instead of Q6_K; it is F16 if they are not whole blocks of 32 either. Of a model with 8 experts Wk and Wv
/// are Q8_0, and Wo is Q5_K instead of Q4_K.
[[nodiscard]] std::vector<DType> mixture_types(const ModelConfig& config, const Mixture& mixture);

}  // namespace folio::core
