// The optimizers of the study, written with plain tensor operations. AdamW performs the same updates as train::AdamW,
// the trainer's default. Muon's updates are scaled as in its first publication, whereas train::Muon scales them to the
// RMS of AdamW's updates.
#pragma once

#include <torch/types.h>

#include <string>
#include <vector>

#include "modules/llama.h"

namespace folio::experiments {

enum class Rule {
  Sgd,     ///< w -= lr m, with m = momentum m + g
  Scaled,  ///< w -= lr m / rms(m), with one rms per matrix or vector, so that every update has an RMS of lr
  Adam,    ///< w -= lr m̂ / (√v̂ + eps); Kingma & Ba, "Adam", 2014, algorithm 1
  AdamL2,  ///< Adam with L2 regularization: λ w is added to the gradient
  AdamW,   ///< Adam plus w -= lr λ w; Loshchilov & Hutter, "Decoupled Weight Decay Regularization", 2017
  Muon,    ///< blocks' matrices: momentum and train::orthogonalized(); others: AdamW; Jordan et al., "Muon", 2024
};

struct OptimizerOptions {
  Rule rule = Rule::AdamW;
  double beta1 = 0.9, beta2 = 0.99, eps = 1e-8;  ///< Adam's hyperparameters; defaults as in train::TrainConfig
  double weight_decay = 0.0;                     ///< applied to matrices, not to vectors
  double momentum = 0.95;                        ///< for Sgd, Scaled and Muon
  /// For Muon: learning rate of the parameters that AdamW updates, as a multiple of Muon's rate.
  double adamw_share = 1.0;
};

class Optimizer {
 public:
  Optimizer(const nn::Llama& model, const OptimizerOptions& options);

  /// Updates all parameters with their current gradients.
  void step(double lr);

 private:
  struct Slot {
    torch::Tensor parameter, first, second;
    Rule rule;
    bool decays;
  };
  void update(Slot& slot, double lr) const;
  void update_by_adam(Slot& slot, double lr) const;

  OptimizerOptions options_;
  int64_t steps_ = 0;
  std::vector<Slot> slots_;
};

}  // namespace folio::experiments
