// Study: how well do n-gram counts predict the next character? The results are explained in README.md.
#include <fmt/format.h>
#include <torch/optim/adamw.h>
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

constexpr int kMaxOrder = 8;
constexpr double kAdd = 0.01;

struct Losses {
  double train = 0.0;
  double validation = 0.0;
};

// Returns the loss of a bigram model in nats per character. Row i of `logits_VV` predicts the character after i.
double bigram_loss(const torch::Tensor& logits_VV, std::span<const int32_t> split) {
  const auto all =
      train::to_tensors(data::consecutive_batch(split, 0, 1, static_cast<int64_t>(split.size()) - 1), torch::kCPU);
  const torch::Tensor log_p_VV = logits_VV.log_softmax(1);
  return -log_p_VV.index({all.inputs_BT, all.targets_BT}).mean().item<double>();
}

// Counts the pairs of consecutive characters in a split. Element (i, j) is the number of times that j follows i.
torch::Tensor pair_counts(std::span<const int32_t> split, int64_t V) {
  const auto all =
      train::to_tensors(data::consecutive_batch(split, 0, 1, static_cast<int64_t>(split.size()) - 1), torch::kCPU);
  const torch::Tensor pair_N = all.inputs_BT.flatten() * V + all.targets_BT.flatten();
  return torch::bincount(pair_N, {}, V * V).reshape({V, V}).to(torch::kDouble);
}

// Compares the validation losses of two bigram models, one learned by gradient descent and one from counts, separately
// for pairs that occur in the training split and pairs that do not.
void show_where_bigrams_differ(Report& report, const Shakespeare& text, const torch::Tensor& logits_VV) {
  const torch::Tensor train_VV = pair_counts(text.splits.train, text.vocab_size);
  const torch::Tensor validation_VV = pair_counts(text.splits.validation, text.vocab_size);
  const torch::Tensor counted_VV =
      ((train_VV + kAdd) / (train_VV.sum(1, true) + kAdd * static_cast<double>(text.vocab_size))).log();
  const torch::Tensor share_VV = validation_VV / validation_VV.sum();
  const torch::Tensor gain_VV = share_VV * (logits_VV.to(torch::kDouble).log_softmax(1) - counted_VV);
  Report::Rows rows;
  for (const bool lacking : {false, true}) {
    const torch::Tensor these = lacking ? train_VV.eq(0) : train_VV.gt(0);
    rows.push_back({lacking ? "lacks" : "has", 100.0 * share_VV.masked_select(these).sum().item<double>(),
                    fmt::format("{:+.4f}", gain_VV.masked_select(these).sum().item<double>())});
  }
  report.table("What the learned bigram gains over the counted one on the validation split (nats per character)",
               {"pairs that the training split", "% of all", "gain"}, rows);
}

// Learns a table of V x V logits, initially 0, with AdamW on random pairs of consecutive characters.
torch::Tensor bigram_by_gradient_descent(const Shakespeare& text, uint64_t seed) {
  constexpr int64_t kSteps = 2000;
  constexpr double kLearningRate = 0.1;
  const data::BatchSampler batches(text.splits.train, 256, 16, seed);
  torch::Tensor logits_VV = torch::zeros({text.vocab_size, text.vocab_size}, torch::requires_grad());
  torch::optim::AdamW optimizer({logits_VV}, torch::optim::AdamWOptions(kLearningRate).weight_decay(0.0));
  for (int64_t step = 0; step < kSteps; ++step) {
    const auto batch = train::to_tensors(batches.batch(static_cast<uint64_t>(step)), torch::kCPU);
    const torch::Tensor logits_NV = torch::embedding(logits_VV, batch.inputs_BT.flatten());
    optimizer.zero_grad();
    torch::cross_entropy_loss(logits_NV, batch.targets_BT.flatten()).backward();
    // Linear decay to 0: a constant rate would leave the noise of the last batches in the table.
    const double left = 1.0 - static_cast<double>(step) / kSteps;
    static_cast<torch::optim::AdamWOptions&>(optimizer.param_groups()[0].options()).lr(kLearningRate * left);
    optimizer.step();
  }
  return logits_VV.detach();
}

void study(Report& report) {
  const Shakespeare text = load_shakespeare(0.1, 0.0);
  const train::NgramCounts counts(text.splits.train, text.vocab_size, kMaxOrder);

  train::LineChart::Series add_train{"add-0.01, training", {}};
  train::LineChart::Series add_validation{"add-0.01, validation", {}};
  train::LineChart::Series smooth_validation{"Witten-Bell, validation", {}};
  Report::Rows rows;
  for (int n = 1; n <= kMaxOrder; ++n) {
    const Losses add{counts.add_k_loss(text.splits.train, n, kAdd), counts.add_k_loss(text.splits.validation, n, kAdd)};
    const Losses smooth{counts.witten_bell_loss(text.splits.train, n),
                        counts.witten_bell_loss(text.splits.validation, n)};
    add_train.points.push_back({static_cast<double>(n), add.train});
    add_validation.points.push_back({static_cast<double>(n), add.validation});
    smooth_validation.points.push_back({static_cast<double>(n), smooth.validation});
    rows.push_back({n, add.train, add.validation, smooth.train, smooth.validation});
  }
  report.table("Loss by counting n-grams (nats per character)",
               {"n", "add-0.01 training", "add-0.01 validation", "Witten-Bell training", "Witten-Bell validation"},
               rows);
  report.value(fmt::format("distinct n-grams of up to {} characters", kMaxOrder), counts.distinct());

  const Losses counted{add_train.points[1].y, add_validation.points[1].y};
  const torch::Tensor logits_VV = bigram_by_gradient_descent(text, report.seed());
  const Losses learned{bigram_loss(logits_VV, text.splits.train), bigram_loss(logits_VV, text.splits.validation)};
  report.table("The same bigram twice (nats per character)", {"bigram", "training", "validation"},
               {{"counted, add-0.01", counted.train, counted.validation},
                {"gradient descent", learned.train, learned.validation}});
  show_where_bigrams_differ(report, text, logits_VV);

  const auto& add = add_validation.points;
  const auto by_loss = [](const auto& a, const auto& b) { return a.y < b.y; };
  const auto lowest = std::min_element(add.begin(), add.end(), by_loss);
  double smallest_rise = INFINITY;
  for (auto point = lowest + 1; point < add.end(); ++point) {
    smallest_rise = std::min(smallest_rise, point->y - (point - 1)->y);
  }
  const double smoothed_5 = smooth_validation.points[4].y;
  report.check_equal("add-0.01 has its lowest validation loss at n", std::lround(lowest->x), 5);
  report.check_above("from there every longer context makes it worse, by at least", smallest_rise, 0.2);
  report.check_below("Witten-Bell's 5-gram has a validation loss below", smoothed_5, 1.68);
  report.check_below("so Witten-Bell's 5-gram beats every add-0.01 n-gram", smoothed_5, lowest->y);
  report.check_below("gradient descent finds the counted bigram, training loss apart by",
                     std::abs(learned.train - counted.train), 0.01);
  report.check_below("gradient descent finds the counted bigram, validation loss apart by",
                     std::abs(learned.validation - counted.validation), 0.01);

  report.picture("counts.svg", {.title = "Predicting a character of TinyShakespeare by counting",
                                .x_label = "n: the character and the n - 1 before it",
                                .y_label = "loss (nats per character)",
                                .series = {add_train, add_validation, smooth_validation},
                                .references = {{"bigram by gradient descent", learned.validation}}});
}

}  // namespace
}  // namespace folio::experiments

int main(int argc, char** argv) { return folio::experiments::run(argc, argv, "01_counts", folio::experiments::study); }
