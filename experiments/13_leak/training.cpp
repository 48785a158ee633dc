#include "experiments/13_leak/training.h"

#include <torch/nn/functional/loss.h>
#include <torch/serialize.h>
#include <torch/utils.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <sstream>

#include "core/error.h"
#include "core/file_io.h"
#include "core/random.h"
#include "core/seconds_since.h"
#include "experiments/13_leak/leaks.h"
#include "train/step/evaluate.h"

namespace folio::experiments::tutorial {
namespace {

constexpr int64_t kBatchSize = 32;
constexpr int64_t kEvalEvery = 100;
constexpr double kLearningRate = 1e-3;

// Returns the defaults of torch.optim.Adam, which is AdamW without weight decay.
train::TrainConfig adam() {
  train::TrainConfig config;
  config.beta1 = 0.9;
  config.beta2 = 0.999;
  config.adam_eps = 1e-8;
  config.weight_decay = 0.0;
  return config;
}

}  // namespace

Training::Training(const Config& config, const Shakespeare& text, uint64_t seed, std::filesystem::path file)
    : seed_(seed),
      file_(std::move(file)),
      model_(seeded(config, seed)),
      adam_(*model_, adam()),
      batches_(text.splits.train, kBatchSize, config.window, seed),
      validation_(text.splits.validation, kBatchSize, config.window, seed) {
  if (file_.empty() || !std::filesystem::exists(file_)) return;
  std::vector<torch::Tensor> saved;
  try {
    torch::load(saved, file_.string());
  } catch (const c10::Error&) {
    saved.clear();  // rejected below
  }
  const std::vector<torch::Tensor> here = state();
  const auto same_shape = [](const torch::Tensor& a, const torch::Tensor& b) { return a.sizes() == b.sizes(); };
  core::require(saved.size() == here.size() + 1 && std::equal(here.begin(), here.end(), saved.begin(), same_shape),
                "{}: not a state of this training; remove it", file_.string());
  const torch::NoGradGuard no_grad;
  for (size_t i = 0; i < here.size(); ++i) here[i].copy_(saved[i]);
  const double* evaluations = saved.back().data_ptr<double>();
  steps_ = static_cast<int64_t>(evaluations[0]);
  adam_.set_steps(steps_);
  evaluations_.assign(evaluations + 1, evaluations + saved.back().numel());
}

bool Training::train_to(int64_t steps, double minutes) {
  const auto start = std::chrono::steady_clock::now();
  while (steps_ < steps && core::seconds_since(start) < 60.0 * minutes) {
    if (steps_ % kEvalEvery == 0) {
      const auto number = static_cast<uint64_t>(steps_ / kEvalEvery);
      model_->dropout().generator.set_current_seed(number);
      evaluations_.push_back(loss_as_the_tutorial_takes_it(model_, validation_, number));
    }
    const auto batch = train::to_tensors(batches_.batch(static_cast<uint64_t>(steps_)), torch::kCPU);
    Dropout& dropout = model_->dropout();
    dropout.generator.set_current_seed(core::random_bits(seed_, static_cast<uint64_t>(steps_)));
    dropout.weights = dropout.output = 0.1;
    for (const torch::Tensor& p : model_->parameters()) p.mutable_grad() = torch::zeros_like(p);
    const torch::Tensor logits_BTV = model_->forward(batch.inputs_BT);
    const torch::Tensor loss = torch::cross_entropy_loss(logits_BTV.flatten(0, 1), batch.targets_BT.flatten());
    core::require(std::isfinite(loss.item<double>()), "the loss of step {} is not finite", steps_);
    loss.backward();
    adam_.step(kLearningRate);
    ++steps_;
  }
  if (!file_.empty()) {
    std::vector<torch::Tensor> saved = state();
    std::vector<double> numbers{static_cast<double>(steps_)};
    numbers.insert(numbers.end(), evaluations_.begin(), evaluations_.end());
    saved.push_back(torch::tensor(numbers, torch::kDouble));
    std::ostringstream bytes;
    torch::save(saved, bytes);
    core::write_file_atomically(file_, bytes.view());
  }
  return steps_ >= steps;
}

std::vector<train::LineChart::Point> Training::curve() const {
  std::vector<train::LineChart::Point> points;
  for (size_t i = 0; i < evaluations_.size(); ++i) {
    points.push_back({static_cast<double>(kEvalEvery) * static_cast<double>(i), evaluations_[i]});
  }
  return points;
}

std::vector<torch::Tensor> Training::state() const {
  std::vector<torch::Tensor> tensors;
  for (const torch::Tensor& p : model_->parameters()) tensors.push_back(p.detach());
  for (const auto& [name, moment] : adam_.state()) tensors.push_back(moment);
  return tensors;
}

}  // namespace folio::experiments::tutorial
