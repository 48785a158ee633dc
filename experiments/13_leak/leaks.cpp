#include "experiments/13_leak/leaks.h"

#include <torch/csrc/autograd/autograd.h>
#include <torch/utils.h>

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_set>

#include "train/step/evaluate.h"

namespace folio::experiments::tutorial {
namespace {

constexpr int64_t kAtOnce = 256;  // windows per batch

torch::Tensor losses_BT(const torch::Tensor& logits_BTV, const torch::Tensor& targets_BT) {
  return -logits_BTV.log_softmax(-1).gather(-1, targets_BT.unsqueeze(-1)).squeeze(-1);
}

// Returns the mean of `losses` at each position, [T], over consecutive windows. `losses` returns [B, T] for a batch.
std::vector<double> mean_over_windows(Llama& model, std::span<const int32_t> split, int64_t windows,
                                      const std::function<torch::Tensor(const train::TensorBatch&)>& losses) {
  const torch::NoGradGuard no_grad;
  model->dropout().weights = model->dropout().output = 0.0;
  const int64_t T = model->config().window;
  const int64_t count = std::min(windows, data::consecutive_windows(split, T));
  torch::Tensor sum_T = torch::zeros(T, torch::kDouble);
  for (int64_t first = 0; first < count; first += kAtOnce) {
    const int64_t rows = std::min(kAtOnce, count - first);
    const auto batch = train::to_tensors(data::consecutive_batch(split, first, rows, T), torch::kCPU);
    sum_T += losses(batch).to(torch::kDouble).sum(0);
  }
  const torch::Tensor mean_T = (sum_T / static_cast<double>(count)).contiguous();
  return {mean_T.data_ptr<double>(), mean_T.data_ptr<double>() + T};
}

// Like mean_over_windows(), where inputs_at(inputs_BT, t) returns the inputs from which the loss at position t is
// computed: a tensor of more than t columns.
template <typename InputsAt>
std::vector<double> mean_with_inputs(Llama& model, std::span<const int32_t> split, int64_t windows,
                                     InputsAt inputs_at) {
  return mean_over_windows(model, split, windows, [&](const train::TensorBatch& batch) {
    torch::Tensor result_BT = torch::zeros(batch.inputs_BT.sizes(), torch::kFloat);
    for (int64_t t = 0; t < result_BT.size(1); ++t) {
      const torch::Tensor inputs = inputs_at(batch.inputs_BT, t);
      const torch::Tensor targets = batch.targets_BT.slice(1, 0, inputs.size(1));
      result_BT.select(1, t).copy_(losses_BT(model->forward(inputs), targets).select(1, t));
    }
    return result_BT;
  });
}

train::TensorBatch some_windows(const Llama& model, std::span<const int32_t> split) {
  return train::to_tensors(data::consecutive_batch(split, 0, 64, model->config().window), torch::kCPU);
}

}  // namespace

double change_from_last_character(Llama& model, std::span<const int32_t> split) {
  const torch::NoGradGuard no_grad;
  model->dropout().weights = model->dropout().output = 0.0;
  const torch::Tensor tokens_BT = some_windows(model, split).inputs_BT;
  torch::Tensor changed_BT = tokens_BT.clone();
  changed_BT.select(1, -1).add_(1).remainder_(model->config().vocab_size);
  const torch::Tensor change_BTV = (model->forward(changed_BT) - model->forward(tokens_BT)).abs();
  return change_BTV.slice(1, 0, -1).max().item<double>();
}

torch::Tensor gradient_map(Llama& model, std::span<const int32_t> split) {
  model->dropout().weights = model->dropout().output = 0.0;
  const auto batch = some_windows(model, split);
  const torch::Tensor x_BTD = model->embed(batch.inputs_BT).detach().requires_grad_();
  const torch::Tensor loss_T = losses_BT(model->forward_embedded(x_BTD), batch.targets_BT).sum(0);
  std::vector<torch::Tensor> rows_T;
  for (int64_t t = 0; t < loss_T.size(0); ++t) {
    const torch::Tensor gradient_BTD = torch::autograd::grad({loss_T[t]}, {x_BTD}, {}, /*retain_graph=*/true)[0];
    rows_T.push_back(gradient_BTD.norm(2, -1).mean(0));
  }
  return torch::stack(rows_T).to(torch::kDouble);
}

Findings look_for_leaks(Llama& model, std::span<const int32_t> split, int64_t windows) {
  const torch::Tensor map_TT = gradient_map(model, split);
  const auto losses = [&](const train::TensorBatch& batch) {
    return losses_BT(model->forward(batch.inputs_BT), batch.targets_BT);
  };
  const auto with_other_future = [](const torch::Tensor& inputs_BT, int64_t t) {
    return torch::cat({inputs_BT.slice(1, 0, t + 1), inputs_BT.roll(1, 0).slice(1, t + 1)}, 1);
  };
  const auto without_future = [](const torch::Tensor& inputs_BT, int64_t t) { return inputs_BT.slice(1, 0, t + 1); };
  return {.losses = mean_over_windows(model, split, windows, losses),
          .other_futures = mean_with_inputs(model, split, windows, with_other_future),
          .without_future = mean_with_inputs(model, split, windows, without_future),
          .change = change_from_last_character(model, split),
          .later_share = (map_TT.triu(1).sum() / map_TT.sum()).item<double>()};
}

double mean_gain_from_future(const Findings& findings) {
  double sum = 0.0;
  const size_t places = findings.losses.size() - 1;
  for (size_t t = 0; t < places; ++t) sum += findings.other_futures[t] - findings.losses[t];
  return sum / static_cast<double>(places);
}

double share_that_occurs(std::span<const int32_t> split, std::span<const int32_t> train, size_t length) {
  const std::string train_text(train.begin(), train.end());  // one byte per token, since token ids are below 65
  const std::string split_text(split.begin(), split.end());
  std::unordered_set<std::string_view> seen;
  for (size_t i = 0; i + length <= train_text.size(); ++i) {
    seen.insert(std::string_view(train_text).substr(i, length));
  }
  double occur = 0.0;
  const size_t pieces = split_text.size() - length + 1;
  for (size_t i = 0; i < pieces; ++i) {
    occur += seen.contains(std::string_view(split_text).substr(i, length)) ? 1.0 : 0.0;
  }
  return occur / static_cast<double>(pieces);
}

double loss_as_the_tutorial_takes_it(Llama& model, const data::BatchSampler& batches, uint64_t number) {
  const torch::NoGradGuard no_grad;
  model->dropout().weights = 0.1;
  model->dropout().output = 0.0;
  double sum = 0.0;
  for (uint64_t i = 0; i < 10; ++i) {
    const auto batch = train::to_tensors(batches.batch(10 * number + i), torch::kCPU);
    sum += losses_BT(model->forward(batch.inputs_BT), batch.targets_BT).mean().item<double>();
  }
  model->dropout().weights = 0.0;
  return sum / 10.0;
}

}  // namespace folio::experiments::tutorial
