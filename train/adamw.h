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
  /// Takes the model's parameters in their order. Matrices decay; vectors (norms) and embeddings as the config says.
  AdamW(const torch::nn::Module& model, const TrainConfig& config);

  /// One update with the gradients that are there now.
  void step(double lr);

  struct Moments {
    std::string name;      ///< of the parameter
    torch::Tensor first;   ///< exponential average of the gradient
    torch::Tensor second;  ///< and of its square
  };
  /// All state but the number of steps; the tensors are the optimizer's own.
  [[nodiscard]] const std::vector<Moments>& moments() const { return moments_; }
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
};

}  // namespace folio::train
