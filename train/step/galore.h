// GaLore (Zhao et al. 2024, https://arxiv.org/abs/2403.03507) for the matrices of the blocks, AdamW for the rest. A
// matrix's moments are stored in a low-rank subspace that contains most of a recent gradient, in a fraction of the
// memory. The subspace changes regularly, so the sum of all updates is not limited to a low rank.
#pragma once

#include <torch/types.h>

#include <vector>

#include "train/step/adamw.h"

namespace folio::train {

/// Updates a block's matrix W [n, m] with gradient G at step t (from 1) with rank r:
///   every `galore_every` steps, starting with the first: P = the singular vectors of G's r largest singular values,
///                 right ones, P [r, m], if n >= m, otherwise left ones, P [n, r]
///   R = G Pᵀ [n, r], or Pᵀ G [r, m]
///   M = β1 M + (1 - β1) R,  V = β2 V + (1 - β2) R²
///   U = M / (√V + eps)
///   W = W - lr √(1 - β2^t) / (1 - β1^t) scale (U P, or P U)
///   W = W - lr λ W
/// This is the authors' galore_torch.AdamW with proj_type "std", including its differences from torch.optim.AdamW:
/// weight decay comes last, and eps is added before the bias corrections. M and V are not reset for a new subspace,
/// although their elements refer to the old one. The rank is limited to the matrix's smaller side; at that limit, P
/// only rotates the gradient, and the state is larger than AdamW's. P, M, V, W and the decomposition are float32.
/// State: "ortho_matrix.NAME" (P), "exp_avg.NAME" (M) and "exp_avg_sq.NAME" (V), as in galore_torch.
class GaLore : public AdamW {
 public:
  /// Weight decay applies to all matrices of blocks, and to the other parameters as in AdamW.
  GaLore(const Parameters& parameters, const TrainConfig& config);

  void step(double lr, double gradient_scale = 1.0) override;

 private:
  struct Subspace {
    torch::Tensor matrix, projection, first, second;  ///< W, P, M and V in the class's formulas
  };
  std::vector<Subspace> subspaces_;
};

}  // namespace folio::train
