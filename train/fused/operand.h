// The weights of a matrix product as the product wants them: several stacked in one matrix, in the type of the
// activations. They are made once for each value of the weights, so once a step, not once for each use.
#pragma once

#include <torch/types.h>
#include <torch/utils.h>

#include <vector>

namespace folio::train::fused {

class Operand {
 public:
  /// `weights` [n_i, k], all of one type and k, as one matrix [sum of n_i, k] of type `type`, without autograd.
  torch::Tensor get(const std::vector<torch::Tensor>& weights, torch::ScalarType type) {
    if (weights.size() == 1 && weights[0].scalar_type() == type) return weights[0].detach();
    std::vector<Value> values;
    for (const torch::Tensor& w : weights) values.push_back({w.data_ptr(), static_cast<int64_t>(w._version())});
    if (matrix_.defined() && matrix_.scalar_type() == type && values == values_) return matrix_;
    const torch::NoGradGuard no_grad;
    int64_t rows = 0;
    for (const torch::Tensor& w : weights) rows += w.size(0);
    // A new one: a graph that is not yet gone back through may hold the last.
    matrix_ = torch::empty({rows, weights[0].size(1)}, weights[0].options().dtype(type).requires_grad(false));
    int64_t row = 0;
    for (const torch::Tensor& w : weights) {
      matrix_.narrow(0, row, w.size(0)).copy_(w);
      row += w.size(0);
    }
    values_ = std::move(values);
    return matrix_;
  }

 private:
  // What tells that a weight has changed: where it is, and how often it was written to.
  struct Value {
    const void* data;
    int64_t version;
    bool operator==(const Value&) const = default;
  };
  torch::Tensor matrix_;
  std::vector<Value> values_;
};

}  // namespace folio::train::fused
