#include "train/step/evaluate.h"

#include <torch/utils.h>

#include <algorithm>

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

// Of losses, by the tokens that count.
class Mean {
 public:
  void add(nn::Llama& model, const data::Batch& batch, torch::Device device) {
    const TensorBatch tensors = to_tensors(batch, device);
    const auto n = static_cast<double>(batch.n_counted());
    sum_ += model->loss(tensors.inputs_BT, tensors.targets_BT).item<double>() * n;
    n_ += n;
  }
  [[nodiscard]] double value() const { return sum_ / n_; }

 private:
  double sum_ = 0.0;
  double n_ = 0.0;
};

}  // namespace

TensorBatch to_tensors(const data::Batch& batch, torch::Device device) {
  return {to_tensor(batch.inputs, batch, device), to_tensor(batch.targets, batch, device)};
}

double split_loss(nn::Llama& model, data::TokenView split, int64_t window, torch::Device device,
                  data::DocumentEnd document_end) {
  const EvaluationMode evaluation(model);
  constexpr int64_t kTokensAtOnce = 4096;
  const int64_t windows = data::consecutive_windows(split, window);
  const int64_t at_once = std::max<int64_t>(1, kTokensAtOnce / window);
  Mean mean;
  for (int64_t first = 0; first < windows; first += at_once) {
    const int64_t rows = std::min(at_once, windows - first);
    mean.add(model, data::consecutive_batch(split, first, rows, window, document_end), device);
  }
  return mean.value();
}

double random_batches_loss(nn::Llama& model, const data::BatchSampler& sampler, int64_t n, uint64_t first,
                           torch::Device device) {
  const EvaluationMode evaluation(model);
  Mean mean;
  for (int64_t i = 0; i < n; ++i) mean.add(model, sampler.batch(first + static_cast<uint64_t>(i)), device);
  return mean.value();
}

}  // namespace folio::train
