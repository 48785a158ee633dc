// AdamW (Loshchilov & Hutter 2019) with decay groups, on LibTorch's fused kernel: one pass over each parameter.
#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <string>
#include <vector>

#include "train/train_config.h"

namespace folio::train {

class AdamW {
 public:
  /// Takes the model's parameters that require a gradient, in their order. Matrices decay; vectors (norms) and
  /// embeddings as the config says. Frozen parameters have no moments and are left as they are.
  AdamW(const torch::nn::Module& model, const TrainConfig& config);

  /// One update with the current gradients times `gradient_scale`, in (0, 1]; they become that product.
  void step(double lr, double gradient_scale = 1.0);

  struct Moments {
    std::string name;      ///< of the parameter
    torch::Tensor first;   ///< exponential moving average of the gradient
    torch::Tensor second;  ///< exponential moving average of its square
  };
  /// The whole state except the number of steps. The tensors are the optimizer's own, not copies.
  [[nodiscard]] const std::vector<Moments>& moments() const { return moments_; }
  /// The parameters that are trained, in the order of their moments.
  [[nodiscard]] const std::vector<torch::Tensor>& parameters() const { return parameters_; }
  [[nodiscard]] int64_t steps() const { return steps_; }
  void set_steps(int64_t steps);

 private:
  struct Group {
    double weight_decay;
    std::vector<torch::Tensor> parameters, first, second, steps;
  };

  double beta1_, beta2_, eps_;
  int64_t steps_ = 0;
  std::vector<Group> groups_;
  std::vector<Moments> moments_;
  std::vector<torch::Tensor> parameters_;
};

}  // namespace folio::train
