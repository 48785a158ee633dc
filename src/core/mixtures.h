// Mixtures of block types: more bits for the matrices that are most sensitive to quantization. Types are chosen as in
// llama.cpp without an importance matrix (llama-quant.cpp, llama_tensor_get_type).
#pragma once

#include <string_view>
#include <vector>

#include "core/model_config.h"
#include "core/tensor_view.h"

namespace folio::core {

struct Mixture {
  std::string_view name;  ///< the value of --type, such as "q4_k_m"
  DType type;             ///< type of most matrices; its DTypeInfo::file_type is also that of the mixture
};

/// Returns the mixture of block types with this name, such as "q4_k_m", or null if there is none.
[[nodiscard]] const Mixture* find_mixture(std::string_view name);

/// Returns the type of each tensor in the manifest for a model of a single type. Matrices have `type`, except that with
/// Q4_0 and Q4_1, the embedding and the output are Q8_0. Vectors and routers are F32.
[[nodiscard]] std::vector<DType> uniform_types(const ModelConfig& config, DType type);

/// Returns each manifest tensor's type in `mixture`. Vectors and routers are F32; the output, or a tied embedding, is
/// Q6_K, and so are Wv, W2 and ExpertW2 in the first and last eighth of the layers and in every third layer between.
/// Rows that are not whole blocks of 256 use Q5_0 instead of Q4_K, Q5_1 instead of Q5_K and Q8_0 instead of Q6_K;
/// rows that are not whole blocks of 32 use F16. With 8 experts Wk and Wv are Q8_0, and Wo is Q5_K instead of Q4_K.
[[nodiscard]] std::vector<DType> mixture_types(const ModelConfig& config, const Mixture& mixture);

}  // namespace folio::core
