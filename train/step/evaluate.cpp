#include "train/step/evaluate.h"

#include <torch/utils.h>

namespace folio::train {

double mean_loss(const std::function<double(const data::Batch&)>& loss_of, const data::BatchOf& batches, uint64_t first,
                 uint64_t n) {
  double sum = 0.0, n_counted = 0.0;
  for (uint64_t number = first; number < first + n; ++number) {
    const data::Batch batch = batches(number);
    const auto counted = static_cast<double>(batch.n_counted());
    sum += loss_of(batch) * counted;
    n_counted += counted;
  }
  return sum / n_counted;
}

double split_loss(nn::Llama& model, data::TokenView split, int64_t window, torch::Device device) {
  const torch::NoGradGuard no_grad;
  const bool was_training = model->is_training();
  model->eval();
  const data::Batches batches = data::consecutive_batches(split, window);
  const double loss = mean_loss(
      [&](const data::Batch& batch) {
        const TensorBatch tensors = to_tensors(batch, device);
        return model->loss(tensors.inputs_BT, tensors.targets_BT, tensors.starts_BT).item<double>();
      },
      batches.batch, 0, batches.n);
  model->train(was_training);
  return loss;
}

}  // namespace folio::train
