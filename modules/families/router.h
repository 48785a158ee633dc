// Which experts a token takes, and with which weights. With s = softmax(router x), or the sigmoid of each number: x
// takes the K experts with the largest s, or s + selection bias (of the groups whose two best have the largest sum),
// and g is s of these, divided by their sum if the model normalizes, times route_scale. Sources: Shazeer et al.,
// "Outrageously Large Neural Networks", 2017; Fedus et al., "Switch Transformers", 2021, section 2; groups and the
// selection bias: DeepSeek-AI, "DeepSeek-V3", 2024, section 2.1.2.
#pragma once

#include <torch/types.h>

#include "core/model_config.h"
#include "modules/families/named_tensor.h"

namespace folio::nn {

/// What the router says of N rows.
struct Routes {
  torch::Tensor scores;   ///< [N, E], of each row and expert
  torch::Tensor experts;  ///< int64 [N, K]: the row's, ascending
  torch::Tensor weights;  ///< [N, K]: their shares in the row's output
};

/// Of x [N, dim], in the type of x, within autocast too: a rounding may choose another expert. `router` [E, dim] may
/// have a bias; `selection` [E] may be empty.
[[nodiscard]] Routes route(const core::ModelConfig& config, const torch::Tensor& x, const NamedTensor& router,
                           const NamedTensor& selection);

}  // namespace folio::nn
