// AdamW (Loshchilov & Hutter 2019) with decay groups, on LibTorch's fused kernel: one pass over each parameter.
#pragma once

#include <torch/types.h>

#include <functional>
#include <string>
#include <vector>

#include "train/step/optimizer.h"

namespace folio::train {

class AdamW : public Optimizer {
 public:
  /// Takes the parameters in their order. Matrices decay; vectors (norms) and embeddings as the config says. Frozen
  /// parameters of a model have no moments and are left as they are, and so are those that `takes` refuses; it may be
  /// empty.
  AdamW(const Parameters& parameters, const TrainConfig& config,
        const std::function<bool(const std::string& name, const torch::Tensor& parameter)>& takes = {});

  void step(double lr, double gradient_scale = 1.0) override;

  struct Moments {
    std::string name;      ///< of the parameter
    torch::Tensor first;   ///< exponential moving average of the gradient
    torch::Tensor second;  ///< exponential moving average of its square
  };
  /// The tensors are the optimizer's own, not copies.
  [[nodiscard]] const std::vector<Moments>& moments() const { return moments_; }
  /// In the order of their moments.
  [[nodiscard]] const std::vector<torch::Tensor>& parameters() const override { return parameters_; }
  /// "exp_avg.NAME" and "exp_avg_sq.NAME", as in torch.optim.AdamW.
  [[nodiscard]] std::vector<State> state() const override;
  [[nodiscard]] int64_t steps() const override { return steps_; }
  void set_steps(int64_t steps) override;

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
