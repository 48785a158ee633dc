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
  /// Matrices decay; vectors (norms) and embeddings as the config says. Parameters that `takes` rejects have no moments
  /// and are left as they are; it may be empty.
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
  [[nodiscard]] const std::vector<torch::Tensor>& parameters() const override { return parameters_; }
  /// "exp_avg.NAME" and "exp_avg_sq.NAME", as in torch.optim.AdamW.
  [[nodiscard]] std::vector<State> state() const override;
  [[nodiscard]] int64_t steps() const override { return steps_; }
  void set_steps(int64_t steps) override;

 private:
  struct Group {
    double weight_decay;
    std::vector<torch::Tensor> parameters{}, first{}, second{}, steps{};
  };

  double beta1_, beta2_, eps_;
  int64_t steps_ = 0;
  std::vector<Group> groups_;
  std::vector<Moments> moments_;
  std::vector<torch::Tensor> parameters_;
};

/// A rule for the matrices of blocks ("layers. …", see is_matrix_of_block()), with AdamW for all other parameters.
class MatrixOptimizer : public Optimizer {
 public:
  [[nodiscard]] const std::vector<torch::Tensor>& parameters() const override { return parameters_; }
  /// The matrices', then AdamW's.
  [[nodiscard]] std::vector<State> state() const override;
  [[nodiscard]] int64_t steps() const override { return others_.steps(); }
  void set_steps(int64_t steps) override { others_.set_steps(steps); }

 protected:
  MatrixOptimizer(const Parameters& parameters, const TrainConfig& config);
  [[nodiscard]] virtual std::vector<State> state_of_matrices() const = 0;

  std::vector<Trained> matrices_;
  AdamW others_;

 private:
  std::vector<torch::Tensor> parameters_;
};

}  // namespace folio::train
