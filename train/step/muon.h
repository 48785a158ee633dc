// Muon (Jordan et al. 2024, https://kellerjordan.github.io/posts/muon/) for the matrices of the blocks, AdamW for
// embeddings, an untied output head, norms and biases. A matrix's update is its orthogonalized momentum: all singular
// values are set to about 1, so that all directions have equal weight. Matrices of the same shape are updated together.
#pragma once

#include <torch/types.h>

#include <string>
#include <vector>

#include "train/step/adamw.h"

namespace folio::train {

/// Approximates U Vᵀ for g = U S Vᵀ by five Newton-Schulz iterations; g is [n, m], or [k, n, m] for k matrices.
/// Singular values of at least 0.0015 times g's Frobenius norm become 0.68 to 1.20; smaller ones may stay below, and a
/// matrix of zeros stays zero. Computes in g's type; bfloat16 is precise enough. Source: Jordan et al. 2024, with their
/// coefficients.
[[nodiscard]] torch::Tensor orthogonalized(const torch::Tensor& g);

/// Updates a block's matrix W [n, m] with gradient G, momentum µ and weight decay λ:
///   M = µ M + G
///   W = W - lr λ W - lr 0.2 √max(n, m) orthogonalized(G + µ M)
/// G + µ M is Nesterov momentum. The scale 0.2 √max(n, m) is from Liu et al. 2025, "Muon is Scalable for LLM Training"
/// (arXiv:2502.16982): the root mean square of U Vᵀ is 1 / √max(n, m), that of AdamW's updates 0.2 to 0.4. So updates
/// are as large as AdamW's, and both optimizers share lr, schedule and weight decay. M and W are float32; with dtype
/// bf16, orthogonalized() computes in bfloat16, as in torch.optim.Muon.
/// State: "momentum_buffer.NAME" (M); torch.optim.Muon has the same name for (1 - µ) M.
class Muon : public AdamW {
 public:
  /// Weight decay applies to all matrices of blocks, and to the other parameters as in AdamW. With tensor parallelism,
  /// each rank stores its part of M, gathers the whole matrix, and computes the whole update.
  Muon(const Parameters& parameters, const TrainConfig& config);

  void step(double lr, double gradient_scale = 1.0) override;

 private:
  // Matrices of the same shape, which are updated together.
  struct Stack {
    std::vector<std::string> names{};         ///< parameter names
    std::vector<torch::Tensor> parameters{};  ///< each is a matrix, or a stack of one per expert
    std::vector<int64_t> counts{};            ///< number of matrices of each parameter
    torch::Tensor momentum{};                 ///< [matrices, n, m]
    int64_t cut_dim = -1;                     ///< dimension of [matrices, n, m] divided among `ranks`; -1: not divided
    parallel::Group* ranks = nullptr;
  };
  std::vector<Stack> stacks_;
};

}  // namespace folio::train
