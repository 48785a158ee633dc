#include "experiments/11_gradients/hand_training.h"

#include <torch/nn/utils/clip_grad.h>

#include <vector>

#include "train/step/evaluate.h"

namespace folio::experiments::by_hand {

HandUpdate::HandUpdate(nn::Llama& model, const Shakespeare& text, const train::TrainConfig& config, Mistake mistake)
    : model_(model),
      config_(config),
      mistake_(mistake),
      batches_(text.splits.train, config.batch_size, config.window, config.seed),
      adamw_(*model, config) {}

void HandUpdate::operator()(double lr) {
  const auto batch = train::to_tensors(batches_.batch(steps_++), torch::kCPU);  // the batch that autograd has just used
  const auto by_name = llama_backward(model_, batch.inputs_BT, batch.targets_BT, mistake_);
  std::vector<torch::Tensor> autograds, by_hand;
  for (const auto& parameter : model_->named_parameters()) {
    const torch::Tensor& gradient = by_name.at(parameter.key());
    autograds.push_back(parameter.value().grad().flatten());
    by_hand.push_back(gradient.flatten());
    parameter.value().mutable_grad() = gradient;
  }
  cosines_ += torch::cosine_similarity(torch::cat(autograds), torch::cat(by_hand), 0).item<double>();
  if (config_.clip > 0.0) torch::nn::utils::clip_grad_norm_(model_->parameters(), config_.clip);
  adamw_.step(lr);
}

double HandUpdate::mean_cosine() const { return cosines_ / static_cast<double>(steps_); }

}  // namespace folio::experiments::by_hand
