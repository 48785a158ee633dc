// AdamW (Loshchilov & Hutter 2019) with weight decay groups, using LibTorch's fused kernel: one pass per parameter.
#pragma once

#include <torch/types.h>

#include <array>
#include <vector>

#include "train/step/optimizer.h"

namespace folio::train {

/// The optimizer AdamW. State: "exp_avg.NAME" and "exp_avg_sq.NAME", as in torch.optim.AdamW. Muon and GaLore derive
/// from it: they update the blocks' matrices and leave all other parameters to AdamW.
class AdamW : public Optimizer {
 public:
  /// Weight decay applies to matrices, to vectors if config.decay_norms is set, and to embeddings if
  /// config.decay_embeddings is set.
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
