// Suffixes of tensor names are dimensions: B sequences, T positions, V vocabulary.
#include "experiments/common/symptoms.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <string>

#include "data/batches.h"
#include "train/verify/observe.h"

namespace folio::experiments {

int64_t count_nans(nn::Llama model) {
  const torch::NoGradGuard no_grad;
  int64_t count = -1;
  const torch::Tensor each_token_V1 = torch::arange(model->config().vocab_size).unsqueeze(1);
  train::forward_observed(model, each_token_V1, [&](const std::string& name, const torch::Tensor& x_V1D) {
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

Leak look_for_leaks(nn::Llama model, const Shakespeare& text, int64_t window, const Change& change) {
  const torch::NoGradGuard no_grad;
  const int64_t last = window - 1;
  const auto batch = train::to_tensors(data::consecutive_batch(text.splits.validation, 0, 64, window), torch::kCPU);
  const torch::Tensor logits_BTV = model->forward(batch.inputs_BT);
  torch::Tensor changed_BT = batch.inputs_BT.clone();
  changed_BT.select(1, last).add_(1).remainder_(text.vocab_size);
  const torch::Tensor cached_BTV = decode_with_cache(model, batch.inputs_BT, change);
  const auto largest = [](const torch::Tensor& x) { return x.abs().max().item<double>(); };
  const auto loss = [&](const torch::Tensor& x_BTV) {
    return torch::cross_entropy_loss(x_BTV.flatten(0, 1), batch.targets_BT.flatten()).item<double>();
  };
  return {.loss = loss(logits_BTV),
          .cached_loss = loss(cached_BTV),
          .cached_change = largest(cached_BTV - logits_BTV),
          .earlier_change = largest((model->forward(changed_BT) - logits_BTV).narrow(1, 0, last))};
}

}  // namespace folio::experiments
