// Suffixes of tensor names are dimensions: B sequences, T positions, D model width, V vocabulary.
#include "experiments/14_tape/rungs.h"

#include <cmath>
#include <numbers>

#include "core/random.h"
#include "experiments/14_tape/operations.h"

namespace folio::tape {
namespace {

// Draws values from N(0, spread²) by the Box-Muller transform. `stream` must differ between parameters.
Parameter drawn(const std::string& name, int64_t rows, int64_t columns, double spread, uint64_t seed, uint64_t stream) {
  Parameter parameter{.name = name, .shape = {1, rows, columns}, .value = Values(rows * columns)};
  for (size_t i = 0; i < parameter.value.size(); ++i) {
    const double u = 1.0 - core::random_uniform(seed, (stream << 40U) + 2 * i);  // in (0, 1]
    const double angle = 2.0 * std::numbers::pi * core::random_uniform(seed, (stream << 40U) + 2 * i + 1);
    parameter.value[i] = spread * std::sqrt(-2.0 * std::log(u)) * std::cos(angle);
  }
  return parameter;
}

// Multiplies x [S, N, I] by a weight [O, I], stored as in LibTorch. Returns [S, N, O].
Tensor linear(const Tensor& x, const Tensor& weight) { return matmul(x, transpose(weight)); }

Parameter zeros(const std::string& name, int64_t rows, int64_t columns) {
  return {.name = name, .shape = {1, rows, columns}, .value = Values(rows * columns, 0.0)};
}

}  // namespace

Rung bigram(int64_t V) {
  return {.name = "bigram",
          .parameters = {zeros("table", V, V)},
          .loss =
              [](const std::vector<Tensor>& w, const data::Batch& batch) {
                const Tensor logits_BTV = look_up(w[0], batch.inputs, batch.rows);
                return cross_entropy(logits_BTV, batch.targets);
              },
          .rate = 30.0};
}

Rung one_head(int64_t V, int64_t D, uint64_t seed) {
  const double spread = 1.0 / std::sqrt(static_cast<double>(D));
  const auto loss = [](const std::vector<Tensor>& w, const data::Batch& batch) {
    const Tensor &embedding = w[0], &output = w[1], &wq = w[2], &wk = w[3], &wv = w[4];
    const Tensor x_BTD = look_up(embedding, batch.inputs, batch.rows);
    const Tensor q_BTD = linear(x_BTD, wq), k_BTD = linear(x_BTD, wk), v_BTD = linear(x_BTD, wv);
    const double scale = 1.0 / std::sqrt(static_cast<double>(q_BTD.shape().columns));
    const Tensor weights_BTT = causal_softmax(matmul(q_BTD, transpose(k_BTD)) * scale);
    return cross_entropy(linear(matmul(weights_BTT, v_BTD), output), batch.targets);
  };
  return {
      .name = "one head",
      .parameters = {drawn("embedding", V, D, 1.0, seed, 0), zeros("output", V, D), drawn("wq", D, D, spread, seed, 1),
                     drawn("wk", D, D, spread, seed, 2), drawn("wv", D, D, spread, seed, 3)},
      .loss = loss,
      .rate = 0.5};
}

std::vector<Tensor> leaves(Tape& tape, const Rung& rung) {
  std::vector<Tensor> all;
  for (const Parameter& p : rung.parameters) all.push_back(tape.leaf(p.name, p.shape, p.value));
  return all;
}

double descend(Rung& rung, const data::Batch& batch) {
  Tape tape;
  const std::vector<Tensor> w = leaves(tape, rung);
  const Tensor loss = rung.loss(w, batch);
  tape.backward(loss);
  for (size_t p = 0; p < w.size(); ++p) {
    Values& value = rung.parameters[p].value;
    for (size_t i = 0; i < value.size(); ++i) value[i] -= rung.rate * w[p].gradient()[i];
  }
  return loss.value()[0];
}

}  // namespace folio::tape
