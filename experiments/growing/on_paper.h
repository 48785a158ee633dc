// What the program shows beside the trainings: a batch, the averages on one short word, and what holds for every rung.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>

#include "experiments/common/report.h"
#include "experiments/common/shakespeare.h"
#include "experiments/growing/03_averaging.h"

namespace folio::growing {

inline std::string visible(std::string text) {
  for (size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += 3) text.replace(at, 1, "⏎");
  return text;
}

// 240 characters by counting alone.
inline std::string written(const Counts& counts, const experiments::Shakespeare& text, uint64_t seed) {
  std::vector<int32_t> tokens = text.tokenizer.encode("\n");
  for (uint64_t i = 0; i < 240; ++i) tokens.push_back(counts.draw(tokens.back(), core::random_uniform(seed, i)));
  return text.tokenizer.decode(tokens);
}

// Three windows of the first batch, the targets beneath the inputs.
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

// The word "noon" with n = (1, 0) and o = (0, 1): the four forms of rung 3, each equal to the one before; and then
// queries that are not 0.
inline void show_averages(experiments::Report& report) {
  const Tensor x_TD = torch::tensor({{1.0F, 0.0F}, {0.0F, 1.0F}, {0.0F, 1.0F}, {1.0F, 0.0F}});
  const Tensor loop = average_by_loop(x_TD), matrix = average_by_matrix(x_TD), softmax = average_by_softmax(x_TD);
  const Tensor attention = attend(torch::zeros_like(x_TD), x_TD, x_TD);
  const auto apart = [](const Tensor& a, const Tensor& b) { return (a - b).abs().max().item<double>(); };
  report.say(fmt::format("\"noon\", n = (1, 0), o = (0, 1); the mean of all vectors so far\n{}  = the weights\n{}  · x",
                         rows_of(loop), rows_of(average_weights(4))));
  report.claim_below("triangular matrix = loop, up to", apart(matrix, loop), 1e-6);
  report.claim_below("softmax of masked zeros = triangular matrix, up to", apart(softmax, matrix), 1e-6);
  report.claim_below("attention with queries of 0 = softmax of masked zeros, up to", apart(attention, softmax), 1e-6);
  const Tensor q_TK = 4.0 * x_TD;  // now each position looks for its own letter
  report.say(fmt::format("with queries q = 4 x, keys k = x: the weights, softmax(q · k / √2)\n{}",
                         rows_of(causal_softmax(q_TK.matmul(x_TD.t()) / std::sqrt(2.0)))));
  report.claim_above("queries of 4 x change the mean by", apart(attend(q_TK, x_TD, x_TD), attention), 0.3);
}

// What holds for every rung, however short its training: at first all V characters are equally likely, the loss falls,
// and no position sees a later one.
inline void claim_sound(experiments::Report& report, const std::string& name, const std::vector<Training>& trainings,
                        double future_seen, int64_t V) {
  std::vector<double> first, fallen;
  for (const Training& t : trainings) {
    first.push_back(std::abs(t.validation.front() - std::log(static_cast<double>(V))));
    fallen.push_back(t.validation.front() - t.validation.back());
  }
  report.claim_below(name + ": the first loss is ln 65, up to", first, 1e-4);
  report.claim_above(name + ": the loss falls by", fallen, 0.3);
  report.claim_below(name + ": a later character changes earlier logits by", future_seen, 1e-6);
}

}  // namespace folio::growing
