#include "experiments/common/symptoms.h"

#include <torch/torch.h>

#include <string>

namespace folio::experiments {

int64_t count_nans(nn::Llama model) {
  const torch::NoGradGuard no_grad;
  int64_t count = -1;
  const torch::Tensor each_token_V1 = torch::arange(model->config().vocab_size).unsqueeze(1);
  model->forward(each_token_V1, [&](const std::string& name, const torch::Tensor& x_V1D) {
    if (name == "layers.0.attention_norm") count = x_V1D.isnan().any(-1).sum().item<int64_t>();
  });
  return count;
}

int64_t count_without_gradient(nn::Llama model, const train::TensorBatch& batch) {
  model->loss(batch.inputs_BT, batch.targets_BT).backward();
  int64_t count = 0;
  for (const torch::Tensor& p : model->parameters()) count += !p.grad().defined() || p.grad().eq(0).all().item<bool>();
  return count;
}

double first_loss(nn::Llama model, const train::TensorBatch& batch) {
  const torch::NoGradGuard no_grad;
  return model->loss(batch.inputs_BT, batch.targets_BT).item<double>();
}

}  // namespace folio::experiments
