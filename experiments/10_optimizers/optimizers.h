// Optimizers as the study compares them: each is one update rule of a few lines for one parameter, in plain tensor
// operations. train::AdamW is the one that trains the default; here it is written out beside its rivals. Muon's steps
// are scaled as in its first publication, train::Muon's so that they have the size of AdamW's.
#pragma once

#include <torch/types.h>

#include <string>
#include <vector>

#include "modules/llama.h"

namespace folio::experiments {

enum class Rule {
  Sgd,     ///< w -= lr m, with m = momentum m + g
  Scaled,  ///< w -= lr m / rms(m): each matrix or vector as a whole takes steps of one size
  Adam,    ///< w -= lr m̂ / (√v̂ + eps); Kingma & Ba, "Adam", 2014, algorithm 1
  AdamL2,  ///< Adam with weight decay as it was done before AdamW: λ w is added to the gradient
  AdamW,   ///< Adam, and w -= lr λ w beside it; Loshchilov & Hutter, "Decoupled Weight Decay Regularization", 2017
  Muon,  ///< matrices of blocks by momentum and train::orthogonalized(), all else by AdamW; Jordan et al., "Muon", 2024
};

struct OptimizerOptions {
  Rule rule = Rule::AdamW;
  double beta1 = 0.9, beta2 = 0.99, eps = 1e-8;  ///< Adam's, as in train::TrainConfig
  double weight_decay = 0.0;                     ///< of matrices, not of vectors
  double momentum = 0.95;                        ///< SGD's and Muon's
  /// Muon's rate for what is no matrix of a block, as a multiple of its rate for those.
  double adamw_share = 1.0;
};

class Optimizer {
 public:
  Optimizer(const nn::Llama& model, const OptimizerOptions& options);

  /// One update with the gradients that are there now.
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
