// Shapes: B sequences, T positions.
#include "modules/mask.h"

namespace folio::nn {

torch::Tensor causal_mask(int64_t T, torch::Device device, const torch::Tensor& starts_BT) {
  const auto causal_TT = torch::ones({T, T}, torch::TensorOptions(torch::kBool).device(device)).tril();
  if (!starts_BT.defined()) return causal_TT;
  const auto positions_T = torch::arange(T, torch::TensorOptions(torch::kInt64).device(device));
  return causal_TT & (positions_T >= starts_BT.unsqueeze(-1)).unsqueeze(1);
}

}  // namespace folio::nn
