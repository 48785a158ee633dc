// AdamW (Loshchilov & Hutter 2019) with decay groups, on LibTorch's fused kernel: one pass over each parameter.
#pragma once

#include <torch/types.h>

#include <array>
#include <vector>

#include "train/step/optimizer.h"

namespace folio::train {

/// Its state is "exp_avg.NAME" and "exp_avg_sq.NAME", as in torch.optim.AdamW. Muon and GaLore derive from it: they
/// have a rule of their own for the matrices of blocks, and leave the other parameters to AdamW.
class AdamW : public Optimizer {
 public:
  /// Matrices decay; vectors (norms) and embeddings as the config specifies.
  AdamW(const Parameters& parameters, const TrainConfig& config);

  void step(double lr, double gradient_scale = 1.0) override;

 protected:
  TrainConfig config_;

 private:
  struct Group {
    double weight_decay;
    std::vector<torch::Tensor> parameters{}, first{}, second{};
  };
  std::array<Group, 2> groups_;
};

}  // namespace folio::train
