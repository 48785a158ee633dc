// Study: how much does an extra softmax before the cross-entropy loss impair training? The results are explained in
// README.md.
#include <fmt/format.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/utils/clip_grad.h>
#include <torch/optim/adam.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>

#include "data/batches.h"
#include "experiments/common/report.h"
#include "experiments/common/shakespeare.h"
#include "train/report/ngram.h"
#include "train/step/evaluate.h"

namespace folio::experiments {
namespace {

// Sizes and training steps of the first model in B. Kitano's "Llama from scratch".
constexpr int64_t kWidth = 128;
constexpr int64_t kContext = 16;
constexpr int64_t kBatchSize = 32;
constexpr int64_t kSteps = 1000;
constexpr int64_t kEvalEvery = 50;

// Returns a multilayer perceptron that maps characters [N] to logits of the next character [N, V].
torch::nn::Sequential make_model(int64_t vocab_size) {
  return torch::nn::Sequential(torch::nn::Embedding(vocab_size, kWidth), torch::nn::Linear(kWidth, kWidth),
                               torch::nn::ReLU(), torch::nn::Linear(kWidth, vocab_size));
}

// Returns the training loss. cross_entropy_loss expects logits and applies a softmax. If `broken`, it receives
// probabilities, so that the softmax is applied twice.
torch::Tensor training_loss(const torch::Tensor& logits_NV, const torch::Tensor& targets_N, bool broken) {
  return torch::cross_entropy_loss(broken ? logits_NV.softmax(1) : logits_NV, targets_N);
}

struct Evaluation {
  double loss = 0.0;       ///< the loss that training minimizes
  double true_loss = 0.0;  ///< -ln p of the target with p = softmax(logits): the loss as a language model
  double mean_p = 0.0;     ///< mean probability of the target
  double accuracy = 0.0;   ///< fraction of positions where the target is the most likely character
};

// Evaluates the model on a whole split. The model's input is one character, so each of V characters is run only once.
Evaluation evaluate(torch::nn::Sequential& model, std::span<const int32_t> split, int64_t vocab_size, bool broken) {
  const torch::NoGradGuard no_grad;
  const auto length = static_cast<int64_t>(split.size()) - 1;
  const auto all = train::to_tensors(data::consecutive_batch(split, 0, 1, length), torch::kCPU);
  const torch::Tensor targets_N = all.targets_BT.flatten();
  const torch::Tensor logits_NV = model->forward(torch::arange(vocab_size)).index_select(0, all.inputs_BT.flatten());
  const torch::Tensor p_N = logits_NV.softmax(1).gather(1, targets_N.unsqueeze(1));
  return {.loss = training_loss(logits_NV, targets_N, broken).item<double>(),
          .true_loss = training_loss(logits_NV, targets_N, false).item<double>(),
          .mean_p = p_N.mean().item<double>(),
          .accuracy = logits_NV.argmax(1).eq(targets_N).to(torch::kFloat).mean().item<double>()};
}

struct Run {
  int64_t parameters = 0;
  double first_gradient = 0.0;  ///< norm of the first batch's gradient
  double lowest = INFINITY;     ///< lowest validation loss during training
  Evaluation end{};
  train::LineChart::Series curve{};
};

Run train_one(const Shakespeare& text, uint64_t seed, bool broken) {
  torch::manual_seed(seed);  // the same initial weights for the broken model and the correct one
  torch::nn::Sequential model = make_model(text.vocab_size);
  const data::BatchSampler batches(text.splits.train, kBatchSize, kContext, seed);
  torch::optim::Adam optimizer(model->parameters());
  Run run;
  run.curve.name = broken ? "with the extra softmax" : "without";
  for (const torch::Tensor& parameter : model->parameters()) run.parameters += parameter.numel();

  for (int64_t step = 0; step <= kSteps; ++step) {
    if (step % kEvalEvery == 0) {
      run.end = evaluate(model, text.splits.validation, text.vocab_size, broken);
      run.lowest = std::min(run.lowest, run.end.loss);
      run.curve.points.push_back({static_cast<double>(step), run.end.loss});
    }
    if (step == kSteps) break;
    const auto batch = train::to_tensors(batches.batch(static_cast<uint64_t>(step)), torch::kCPU);
    optimizer.zero_grad();
    training_loss(model->forward(batch.inputs_BT.flatten()), batch.targets_BT.flatten(), broken).backward();
    if (step == 0) run.first_gradient = torch::nn::utils::clip_grad_norm_(model->parameters(), INFINITY);
    optimizer.step();
  }
  return run;
}

void study(Report& report) {
  const Shakespeare text = load_shakespeare(0.1, 0.1);
  const double characters = text.vocab_size;
  // The broken loss is ln(sum over j of e^z_j) - z_y for target y, where z are probabilities. It is lowest if z_y = 1
  // and all other z_j are 0. The sum is largest if any one z_j is 1, and smallest if all z_j are equal.
  const double log_sum_at_most = std::log(std::exp(1.0) + characters - 1.0);
  const double log_sum_at_least = std::log(characters) + 1.0 / characters;
  const double bound = log_sum_at_most - 1.0;
  const double bigram =
      train::NgramCounts(text.splits.train, text.vocab_size, 2).add_k_loss(text.splits.validation, 2, 0.01);

  const Run broken = train_one(text, report.seed(), true);
  const Run mended = train_one(text, report.seed(), false);

  Report::Rows rows;
  for (const Run* run : {&broken, &mended}) {
    rows.push_back({run->curve.name, run->curve.points.front().y, run->end.loss, run->end.true_loss, run->end.mean_p,
                    run->end.accuracy, run->first_gradient});
  }
  report.table(
      fmt::format("After {} steps, on the validation split", kSteps),
      {"model", "at first", "loss it minimizes", "-ln p(right)", "mean p(right)", "accuracy", "first gradient"}, rows);
  report.value("loss of the bigram by counting (add-0.01) on the same split", bigram);

  report.check_equal("the tutorial's number of parameters", broken.parameters, 33217);
  report.check_above("with the extra softmax no loss gets below ln(e + 64) - 1", broken.lowest, bound);
  report.check_below("its loss is ln(e + 64) - mean p(right), up to",
                     std::abs(broken.end.loss - (log_sum_at_most - broken.end.mean_p)),
                     log_sum_at_most - log_sum_at_least);
  report.check_above("after training it is still far from that bound", broken.end.loss, 3.8);
  report.check_below("without the softmax the same model learns", mended.end.loss, 2.6);
  report.check_above("as a language model the broken one is worse by", broken.end.true_loss - mended.end.true_loss,
                     1.0);

  report.picture("broken.svg", {.title = "One softmax too many",
                                .x_label = "step",
                                .y_label = "validation loss that is minimized (nats per character)",
                                .series = {broken.curve, mended.curve},
                                .references = {{"ln 65, knowing nothing", std::log(characters)},
                                               {"ln(e + 64) - 1, the bound", bound},
                                               {"bigram by counting", bigram}}});
}

}  // namespace
}  // namespace folio::experiments

int main(int argc, char** argv) { return folio::experiments::run(argc, argv, "02_broken", folio::experiments::study); }
