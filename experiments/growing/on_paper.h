// The parts of the program's output that need no training: tensors, a batch, averages on one short word, dot products
// of random vectors, and checks that apply to every rung.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>

#include "experiments/common/report.h"
#include "experiments/common/shakespeare.h"
#include "experiments/growing/03_averaging.h"
#include "experiments/growing/tensors.h"

namespace folio::growing {

inline std::string visible(std::string text) {
  for (size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += 3) text.replace(at, 1, "⏎");
  return text;
}

// Returns a newline and 240 characters sampled from the bigram counts of rung 1.
inline std::string written(const Counts& counts, const experiments::Shakespeare& text, uint64_t seed) {
  std::vector<int32_t> tokens = text.tokenizer.encode("\n");
  for (uint64_t i = 0; i < 240; ++i) tokens.push_back(counts.draw(tokens.back(), core::random_uniform(seed, i)));
  return text.tokenizer.decode(tokens);
}

// Prints three windows of the first batch with the targets below the inputs.
inline void show_batch(const experiments::Report& report, const experiments::Shakespeare& text, const Setting& s) {
  const Batch batch = random_batch(text.splits.train, s, 0);
  const auto line = [&](const Tensor& tokens_T) {
    const auto* data = tokens_T.data_ptr<int64_t>();
    return visible(text.tokenizer.decode(std::vector<int32_t>(data, data + tokens_T.size(0))));
  };
  std::string lines = "\nThree windows of the first batch: inputs above targets, one character apart\n";
  for (int64_t b = 0; b < 3; ++b) {
    lines += fmt::format("  inputs   {}\n  targets  {}\n\n", line(batch.inputs_BT[b]), line(batch.targets_BT[b]));
  }
  report.say(lines);
}

inline std::string rows_of(const Tensor& matrix) {
  std::string lines;
  for (int64_t t = 0; t < matrix.size(0); ++t) {
    const Tensor row = matrix[t].contiguous();
    lines += fmt::format("    {:.2f}\n", fmt::join(row.data_ptr<float>(), row.data_ptr<float>() + row.size(0), "  "));
  }
  return lines;
}

inline std::string shape_of(const Tensor& tensor) { return fmt::format("[{}]", fmt::join(tensor.sizes(), ", ")); }

// Returns the largest absolute difference between elements of two tensors of the same shape.
inline double apart(const Tensor& a, const Tensor& b) { return (a - b).abs().max().item<double>(); }

// Runs the functions of tensors.h on the word "noon" (n = 0, o = 1): counts, probabilities, loss, and two steps of
// gradient descent.
inline void show_tensors(experiments::Report& report) {
  const std::vector<int32_t> noon{0, 1, 1, 0};
  const Pairs pairs = pairs_of(noon);
  const Tensor times_VV = count(pairs, 2), shares_VV = shares(times_VV), wrong_VV = wrong_shares(times_VV);
  report.say(fmt::format(
      "\"noon\", n = 0, o = 1: its pairs counted\n{}  sum(1, keepdim) has the shape {}\n{}"
      "  sum(1) has the shape {}\n{}  counts / sum(1, keepdim)\n{}  counts / sum(1): the rows have "
      "not the sum 1\n{}",
      rows_of(times_VV), shape_of(times_VV.sum(1, true)), rows_of(times_VV.sum(1, true)), shape_of(times_VV.sum(1)),
      rows_of(times_VV.sum(1).unsqueeze(0)), rows_of(shares_VV), rows_of(wrong_VV)));
  const Tensor rows_NV = rows(shares_VV, pairs);
  report.say(
      fmt::format("the rows of n, o, o, {}\n{}  gather takes from each the share of what came: o, o, n\n{}"
                  "  the mean of -ln of them: {:.3f}\n",
                  shape_of(rows_NV), rows_of(rows_NV), rows_of(picked(rows_NV, pairs).unsqueeze(0)),
                  loss_of_shares(shares_VV, pairs).item<double>()));
  report.check_below("shares: each row has the sum 1, up to", apart(shares_VV.sum(1), torch::ones(2)), 1e-6);
  report.check_above("without keepdim a row's sum differs from 1 by", apart(wrong_VV.sum(1), torch::ones(2)), 0.4);
  report.check_below("the loss = (-ln 1 - ln 1/2 - ln 1/2) / 3, up to",
                     std::abs(loss_of_shares(shares_VV, pairs).item<double>() - 2.0 * std::log(2.0) / 3.0), 1e-6);

  Tensor logits_VV = torch::zeros({2, 2}).requires_grad_();
  step(logits_VV, pairs, /*rate=*/0.0);
  const Tensor once_VV = logits_VV.grad().clone();
  report.say(fmt::format("logits of 0: the gradient of their loss\n{}", rows_of(once_VV)));
  const Tensor by_hand_VV = torch::tensor({{0.5F, -0.5F}, {0.0F, 0.0F}}) / 3.0;
  report.check_below("that gradient = (share - 1 if it came) / 3, summed over the pairs, up to",
                     apart(once_VV, by_hand_VV), 1e-6);
  loss_of_logits(logits_VV, pairs).backward();  // adds to grad(), which was not zeroed
  report.check_below("a second backward() without zero_() doubles it, up to", apart(logits_VV.grad(), 2.0 * once_VV),
                     1e-6);
  bool refused = false;
  try {
    logits_VV.sub_(0.0);
  } catch (const c10::Error&) {
    refused = true;
  }
  report.check_equal("steps that LibTorch rejects without NoGradGuard", refused ? 1 : 0, 1);
  std::vector<double> losses;
  for (int i = 0; i < 2; ++i) {
    losses.push_back(loss_of_logits(logits_VV, pairs).item<double>());
    step(logits_VV, pairs, /*rate=*/3.0);
  }
  losses.push_back(loss_of_logits(logits_VV, pairs).item<double>());
  report.say(fmt::format("two steps at a rate of 3: loss {:.3f}, {:.3f}, {:.3f}; the logits\n{}  their softmax\n{}",
                         losses[0], losses[1], losses[2], rows_of(logits_VV.detach()),
                         rows_of(logits_VV.detach().softmax(1))));
  report.check_above("each step lowers the loss by", std::min(losses[0] - losses[1], losses[1] - losses[2]), 0.02);
}

// Shows why scores are divided by √K: dot products of random q and k, with mean 0 and standard deviation 1 per element.
inline void show_scale(experiments::Report& report) {
  constexpr int64_t kQueries = 4000, kKeys = 8;
  torch::manual_seed(report.seed());
  std::string lines = fmt::format(
      "{} queries with {} keys each, of K random numbers of spread 1\n"
      "     K   spread of q · k   largest weight   of q · k / √K   p (1 - p)   of q · k / √K\n",
      kQueries, kKeys);
  const auto largest = [](const Tensor& scores) { return scores.softmax(1).amax(1).mean().item<double>(); };
  // Returns the mean of p (1 - p), the derivative of a softmax output p with respect to its score.
  const auto moves = [](const Tensor& scores) {
    const Tensor p = scores.softmax(1);
    return (p * (1.0 - p)).mean().item<double>();
  };
  for (const int64_t K : {1, 4, 16, 64, 256}) {
    const Tensor q_NK = torch::randn({kQueries, K}), k_NSK = torch::randn({kQueries, kKeys, K});
    const Tensor scores_NS = k_NSK.matmul(q_NK.unsqueeze(-1)).squeeze(-1);
    const double root = std::sqrt(static_cast<double>(K));
    const double spread = scores_NS.square().mean().sqrt().item<double>();
    lines += fmt::format("{:6} {:15.2f} {:16.2f} {:15.2f} {:11.3f} {:15.3f}\n", K, spread, largest(scores_NS),
                         largest(scores_NS / root), moves(scores_NS), moves(scores_NS / root));
    report.check_below(fmt::format("the spread of q · k over √{} differs from 1 by", K), std::abs(spread / root - 1.0),
                       0.05);
    if (K < 16) continue;
    report.check_above(fmt::format("K = {}: divided, a weight moves more with its score, by a factor of", K),
                       moves(scores_NS / root) / moves(scores_NS), 1.5);
  }
  report.say(lines);
}

// Computes the four forms of rung 3 on the word "noon", n = (1, 0) and o = (0, 1), then attention with nonzero queries.
inline void show_averages(experiments::Report& report) {
  const Tensor x_TD = torch::tensor({{1.0F, 0.0F}, {0.0F, 1.0F}, {0.0F, 1.0F}, {1.0F, 0.0F}});
  const Tensor loop = average_by_loop(x_TD), matrix = average_by_matrix(x_TD), softmax = average_by_softmax(x_TD);
  const Tensor attention = attend(torch::zeros_like(x_TD), x_TD, x_TD);
  report.say(fmt::format("\"noon\", n = (1, 0), o = (0, 1); the mean of all vectors so far\n{}  = the weights\n{}  · x",
                         rows_of(loop), rows_of(average_weights(4))));
  report.check_below("triangular matrix = loop, up to", apart(matrix, loop), 1e-6);
  report.check_below("softmax of masked zeros = triangular matrix, up to", apart(softmax, matrix), 1e-6);
  report.check_below("attention with queries of 0 = softmax of masked zeros, up to", apart(attention, softmax), 1e-6);
  const Tensor q_TK = 4.0 * x_TD;  // each query matches the keys of its own letter
  report.say(fmt::format("with queries q = 4 x, keys k = x: the weights, softmax(q · k / √2)\n{}",
                         rows_of(causal_softmax(q_TK.matmul(x_TD.t()) / std::sqrt(2.0)))));
  report.check_above("queries of 4 x change the mean by", apart(attend(q_TK, x_TD, x_TD), attention), 0.3);
}

// Checks properties of every rung: before training all V characters are equally likely, the loss falls, and no position
// depends on a later one.
inline void check_sound(experiments::Report& report, const std::string& name, const std::vector<Training>& trainings,
                        double future_seen, int64_t V) {
  std::vector<double> first, fallen;
  for (const Training& t : trainings) {
    first.push_back(std::abs(t.validation.front() - std::log(static_cast<double>(V))));
    fallen.push_back(t.validation.front() - t.validation.back());
  }
  report.check_below(name + ": the first loss is ln 65, up to", first, 1e-4);
  report.check_above(name + ": the loss falls by", fallen, 0.3);
  report.check_below(name + ": a later character changes earlier logits by", future_seen, 1e-6);
}

}  // namespace folio::growing
