// Sizes: S matrices in a stack, B sequences, T positions, D model width, V vocabulary.
#include "experiments/14_tape/twin.h"

#include <torch/csrc/autograd/autograd.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <utility>

#include "core/error.h"
#include "core/random.h"
#include "experiments/14_tape/operations.h"
#include "experiments/common/statistics.h"
#include "experiments/growing/04_one_head.h"

namespace folio::tape {
namespace {

constexpr int64_t S = 3, B = 3, T = 5, D = 4, V = 7;
constexpr double kRest = 10;  // allowance for the rounding errors of elementwise operations, in half ulps
using Twins = std::vector<torch::Tensor>;

torch::Tensor twin_of(const Shape& shape, const Values& value) {
  return torch::tensor(value, torch::kDouble).view({shape.stack, shape.rows, shape.columns});
}

Twins twins_of(const std::vector<Parameter>& leaves) {
  Twins all;
  for (const Parameter& p : leaves) all.push_back(twin_of(p.shape, p.value).set_requires_grad(true));
  return all;
}

torch::Tensor ids_of(const std::vector<int32_t>& ids) { return torch::tensor(ids).to(torch::kLong); }

// Returns the model of experiments/growing that corresponds to `rung`, in double, with the given parameter values.
std::shared_ptr<growing::Model> growing_model(const Rung& rung, const Twins& values) {
  std::shared_ptr<growing::Model> model;
  if (rung.name == "bigram") {
    model = std::make_shared<growing::Bigram>(values[0].size(-1));
  } else {
    core::require(rung.name == "one head", "the growing model has no rung {}", rung.name);
    model = std::make_shared<growing::OneHead>(values[0].size(-2), values[0].size(-1));
  }
  model->to(torch::kDouble);
  const Twins parameters = model->parameters();
  core::require(parameters.size() == values.size(), "{}: {} parameters here, {} there", rung.name, values.size(),
                parameters.size());
  const torch::NoGradGuard no_grad;
  for (size_t i = 0; i < values.size(); ++i) parameters[i].copy_(values[i][0]);
  return model;
}

torch::Tensor growing_loss(growing::Model& model, const data::Batch& batch) {
  const auto logits_BTV = model.forward(ids_of(batch.inputs).view({batch.rows, batch.length}));
  return growing::cross_entropy(logits_BTV, ids_of(batch.targets).view({batch.rows, batch.length}));
}

// An operation or model that runs on a tape and in LibTorch. The loss is a randomly weighted sum of its outputs.
struct Case {
  std::string name;
  std::vector<Parameter> leaves;
  double roundings;
  std::function<Tensor(const std::vector<Tensor>&)> record;
  std::function<torch::Tensor(const Twins&)> libtorch;  // the same operation or model in LibTorch
  std::shared_ptr<growing::Model> model{};              // the model that `libtorch` runs; null for an operation
};

Values random_values(int64_t n, uint64_t seed) {
  const auto generator = torch::make_generator<at::CPUGeneratorImpl>(seed);
  const auto drawn = torch::randn({n}, generator, torch::kDouble);
  return {drawn.data_ptr<double>(), drawn.data_ptr<double>() + n};
}

std::vector<Case> make_cases(uint64_t seed) {
  const auto leaf = [&](const std::string& name, Shape shape) {
    return Parameter{name, shape, random_values(shape.size(), ++seed)};
  };
  const Shape stack{S, T, D}, square{S, T, T};
  const std::vector<int32_t> ids{1, 5, 5, 0, 6, 1, 1, 2, 3, 4, 0, 0, 6, 5, 2},
      next{4, 0, 1, 1, 2, 5, 3, 6, 0, 6, 2, 1, 4, 4, 3};
  const data::Batch batch{.rows = B, .length = T, .inputs = ids, .targets = next};
  std::vector<Case> cases;
  const auto add = [&](const char* name, std::vector<Parameter> leaves, double roundings, auto record, auto libtorch) {
    cases.push_back({name, std::move(leaves), roundings + kRest, record, libtorch});
  };
  const auto add_same = [&](const char* name, std::vector<Parameter> leaves, double roundings, auto both) {
    add(name, std::move(leaves), roundings, both, both);  // `both` accepts tensors of the tape and of LibTorch
  };
  const auto product = [](auto& w) { return matmul(w[0], w[1]); };
  add_same("+", {leaf("a", stack), leaf("b", stack)}, 0, [](auto& w) { return w[0] + w[1]; });
  add_same("×", {leaf("a", stack), leaf("b", stack)}, 0, [](auto& w) { return w[0] * w[1]; });
  add_same("× a constant", {leaf("a", stack)}, 0, [](auto& w) { return w[0] * 0.3; });
  add_same("a value used three times", {leaf("a", stack)}, 0, [](auto& w) { return w[0] * w[0] + w[0]; });
  add_same("matmul, stack by stack", {leaf("a", stack), leaf("b", {S, D, V})}, T + V, product);
  add_same("matmul, stack by matrix", {leaf("a", stack), leaf("b", {1, D, V})}, S * T + V, product);
  add(
      "transpose", {leaf("a", stack)}, 0, [](auto& w) { return transpose(w[0]); },
      [](auto& w) { return w[0].transpose(1, 2); });
  add(
      "causal softmax", {leaf("scores", square)}, 2 * T, [](auto& w) { return causal_softmax(w[0]); },
      [](auto& w) { return growing::causal_softmax(w[0]); });
  add(
      "look up", {leaf("table", {1, V, D})}, B * T, [=](auto& w) { return look_up(w[0], ids, B); },
      [=](auto& w) {
        return torch::embedding(w[0][0], ids_of(ids)).view({B, T, D});
      });
  add(
      "cross-entropy", {leaf("logits", {B, T, V})}, V, [=](auto& w) { return cross_entropy(w[0], next); },
      [=](auto& w) { return torch::cross_entropy_loss(w[0].flatten(0, 1), ids_of(next)); });
  for (Rung rung : {bigram(V), one_head(V, D, seed)}) {
    for (Parameter& p : rung.parameters) p.value = random_values(p.shape.size(), ++seed);
    const auto model = growing_model(rung, twins_of(rung.parameters));
    cases.push_back({"loss of: " + rung.name, rung.parameters, roundings(rung, B, T),
                     [=](auto& w) { return rung.loss(w, batch); },
                     [=](auto& /*w*/) { return growing_loss(*model, batch); }, model});
  }
  return cases;
}

// A case recorded on a tape: the leaves, `weighted` (the result times random weights), and the loss (its sum).
struct Recorded {
  std::vector<Tensor> leaves;
  Tensor weighted, loss;
};
Recorded record(Tape& tape, const Case& c, const Values& weights) {
  std::vector<Tensor> leaves;
  for (const Parameter& p : c.leaves) leaves.push_back(tape.leaf(p.name, p.shape, p.value));
  const Tensor y = c.record(leaves);
  const Tensor weighted = y * tape.leaf("r", y.shape(), Values(weights.begin(), weights.begin() + y.shape().size()));
  return {leaves, weighted, sum(weighted)};
}

// Returns the largest |gradient − D(h)| / tolerance, where D(h) is the central difference with step h. As in
// tests/modules/gradient_check.h, the tolerance is 4 |D(2h) − D(h)| / 3 for truncation plus
// 32 ε Σ |terms of the loss| / h for rounding.
double worst_share(const Case& c, const Values& weights, const Recorded& at) {
  constexpr double kEps = std::numeric_limits<double>::epsilon();
  const double h = std::cbrt(kEps);
  double size = 0.0, worst = 0.0;
  for (const double term : at.weighted.value()) size += std::abs(term);
  Case moved = c;
  for (size_t p = 0; p < c.leaves.size(); ++p) {
    for (size_t i = 0; i < c.leaves[p].value.size(); ++i) {
      double& x = moved.leaves[p].value[i];
      const auto loss_at = [&](double value) {
        x = value;
        Tape tape;
        return record(tape, moved, weights).loss.value()[0];
      };
      const double before = x;
      const auto difference = [&](double step) {
        return (loss_at(before + step) - loss_at(before - step)) / (2 * step);
      };
      const double near = difference(h), far = difference(2 * h);
      x = before;
      const double tolerance = 4 * std::abs(far - near) / 3 + 32 * kEps * size / h;
      worst = experiments::larger(worst, std::abs(at.leaves[p].gradient()[i] - near) / tolerance);
    }
  }
  return worst;
}

}  // namespace

double roundings(const Rung& rung, int64_t rows, int64_t length) {
  const auto n = static_cast<double>(rows * length), v = static_cast<double>(rung.parameters[0].shape.rows);
  if (rung.name == "bigram") return n + v + kRest;
  const auto d = static_cast<double>(rung.parameters[0].shape.columns), t = static_cast<double>(length);
  // Lengths of the sums on the longest path. Forward: projection, score, softmax, average of values, logits, softmax.
  // Backward: logits, average, softmax, score, projection, and the sum over all positions that used a weight.
  return (d + d + t + t + d + v) + (v + t + d + t + t + 3 * d) + n + 2 * kRest;
}

std::vector<Check> check_gradients(uint64_t seed) {
  std::vector<Check> checks;
  for (const Case& c : make_cases(1000 * seed)) {
    const Values weights = random_values(S * T * V, seed);
    Tape tape;
    const Recorded ours = record(tape, c, weights);
    tape.backward(ours.loss);
    const Twins twins = c.model ? c.model->parameters() : twins_of(c.leaves);
    const torch::Tensor y = c.libtorch(twins);
    const auto r = torch::tensor(weights, torch::kDouble).slice(0, 0, y.numel()).view(y.sizes());
    const auto truth = torch::autograd::grad({y}, twins, {r});
    double error = 0.0;
    for (size_t i = 0; i < twins.size(); ++i) {
      const auto gradient = twin_of(c.leaves[i].shape, ours.leaves[i].gradient());
      error = experiments::larger(error,
                                  ((gradient - truth[i].reshape_as(gradient)).norm() / truth[i].norm()).item<double>());
    }
    checks.push_back({c.name, error, c.roundings * 0x1p-53, worst_share(c, weights, ours)});
  }
  return checks;
}

std::vector<double> libtorch_losses(const Rung& rung, const std::vector<data::Batch>& batches) {
  const auto model = growing_model(rung, twins_of(rung.parameters));
  const Twins parameters = model->parameters();
  std::vector<double> losses;
  for (const data::Batch& batch : batches) {
    model->zero_grad();
    const torch::Tensor loss = growing_loss(*model, batch);
    loss.backward();
    growing::descend(parameters, rung.rate);
    losses.push_back(loss.item<double>());
  }
  return losses;
}

}  // namespace folio::tape
