// GaLore (Zhao et al. 2024, https://arxiv.org/abs/2403.03507) for the matrices of the blocks, AdamW for the rest. A
// matrix's moments are kept in the subspace of low rank that holds most of a recent gradient, in a fraction of the
// memory. The matrix keeps its full rank: its updates move from subspace to subspace.
#pragma once

#include <torch/types.h>

#include <vector>

#include "train/step/adamw.h"

namespace folio::train {

/// For a matrix W [n, m] of a block with the gradient G, rank r, and t steps with this one:
///   every `galore_every` steps, the first one included: P = the r largest singular vectors of G,
///                 those of its rows, P [r, m], where n >= m, and those of its columns, P [n, r], otherwise
///   R = G Pᵀ [n, r], or Pᵀ G [r, m]
///   M = β1 M + (1 - β1) R,  V = β2 V + (1 - β2) R²
///   U = M / (√V + eps)
///   W = W - lr √(1 - β2^t) / (1 - β1^t) scale (U P, or P U)
///   W = W - lr λ W
/// As in galore_torch.AdamW with proj_type "std", the authors' own, also where that differs from torch.optim.AdamW:
/// decay comes last, and eps is added before the corrections of M and V. M and V are kept in a new subspace, although
/// their elements, and the signs of singular vectors, which are the library's choice, belong to the old one. A rank
/// above the smaller side of a matrix is that side: then P only turns the matrix, and the state is larger than AdamW's.
/// P, M, V and W are float32, and so is the decomposition.
/// Its state is "ortho_matrix.NAME", "exp_avg.NAME" and "exp_avg_sq.NAME", which are P, M and V, as in galore_torch.
class GaLore : public AdamW {
 public:
  /// Matrices decay; the others as in AdamW.
  GaLore(const Parameters& parameters, const TrainConfig& config);

  void step(double lr, double gradient_scale = 1.0) override;

 private:
  struct Subspace {
    torch::Tensor matrix, projection, first, second;  ///< W, P, M and V
  };
  std::vector<Subspace> subspaces_;
};

}  // namespace folio::train
