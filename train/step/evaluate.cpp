#include "train/step/evaluate.h"

#include <torch/utils.h>

namespace folio::train {
namespace {

// Turns dropout and autograd off, and restores both at the end of its scope.
class EvaluationMode {
 public:
  explicit EvaluationMode(nn::Llama& model) : model_(model), was_training_(model->is_training()) { model_->eval(); }
  ~EvaluationMode() { model_->train(was_training_); }
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;

 private:
  nn::Llama& model_;
  bool was_training_;
  torch::NoGradGuard no_grad_;
};

torch::Tensor to_tensor(const std::vector<int32_t>& tokens, const data::Batch& batch, torch::Device device) {
  auto* data = const_cast<int32_t*>(tokens.data());  // only read
  return torch::from_blob(data, {batch.rows, batch.length}, torch::kInt32).to(torch::kInt64).to(device);
}

}  // namespace

TensorBatch to_tensors(const data::Batch& batch, torch::Device device) {
  return {.inputs_BT = to_tensor(batch.inputs, batch, device),
          .targets_BT = to_tensor(batch.targets, batch, device),
          .starts_BT = batch.starts.empty() ? torch::Tensor() : to_tensor(batch.starts, batch, device)};
}

double mean_loss(nn::Llama& model, const data::BatchOf& batches, uint64_t first, uint64_t n, torch::Device device) {
  const EvaluationMode evaluation(model);
  double sum = 0.0;
  double n_counted = 0.0;
  for (uint64_t number = first; number < first + n; ++number) {
    const data::Batch batch = batches(number);
    const TensorBatch tensors = to_tensors(batch, device);
    const auto counted = static_cast<double>(batch.n_counted());
    sum += model->loss(tensors.inputs_BT, tensors.targets_BT, tensors.starts_BT).item<double>() * counted;
    n_counted += counted;
  }
  return sum / n_counted;
}

double split_loss(nn::Llama& model, data::TokenView split, int64_t window, torch::Device device,
                  data::DocumentEnd document_end) {
  const data::Batches batches = data::consecutive_batches(split, window, document_end);
  return mean_loss(model, batches.batch, 0, batches.n, device);
}

}  // namespace folio::train
