// Muon (Jordan et al. 2024, https://kellerjordan.github.io/posts/muon/) for the matrices of the blocks, AdamW for
// embeddings, an untied output, norms and biases. A matrix's step is its momentum with all singular values brought to
// about 1, so that all directions count alike. All matrices of one shape are updated together.
#pragma once

#include <torch/types.h>

#include <string>
#include <vector>

#include "train/step/adamw.h"

namespace folio::train {

/// The nearest matrix to g [n, m] whose singular values are all about 1: U Vᵀ for g = U S Vᵀ, by five Newton-Schulz
/// steps. Values of at least 0.0015 of g's norm end between 0.68 and 1.21, smaller ones below. A matrix of zeros stays
/// one. With g [k, n, m], for each of k matrices. Computes in g's type; bfloat16 will do. Source: Jordan et al. 2024,
/// with their coefficients.
[[nodiscard]] torch::Tensor orthogonalized(const torch::Tensor& g);

/// With momentum µ, decay λ and the gradient G of a matrix W [n, m] of a block:
///   M = µ M + G
///   W = W - lr λ W - lr 0.2 √max(n, m) orthogonalized(G + µ M)
/// G + µ M is Nesterov's momentum. The scale is that of Liu et al. 2025, "Muon is Scalable for LLM Training"
/// (arXiv:2502.16982): U Vᵀ has a root mean square of 1 / √max(n, m), and AdamW's updates one of 0.2 to 0.4. So steps
/// of both optimizers have one size, and one lr, schedule and decay serve both. M and W are float32; with the dtype
/// bf16, orthogonalized() is in bfloat16, as in torch.optim.Muon.
/// Its state is "momentum_buffer.NAME", which is M, as in torch.optim.Muon.
class Muon : public AdamW {
 public:
  /// Matrices decay; the others as in AdamW. Where ranks have parts of matrices, each has the same part of M, and all
  /// of them compute the whole step.
  Muon(const Parameters& parameters, const TrainConfig& config);

  void step(double lr, double gradient_scale = 1.0) override;

 private:
  // Matrices of one shape, which are updated together.
  struct Stack {
    std::vector<std::string> names{};  ///< of the parameters, each a matrix, or one of each expert
    std::vector<torch::Tensor> parameters{};
    std::vector<int64_t> counts{};  ///< of each parameter's matrices
    torch::Tensor momentum{};       ///< [matrices, n, m]
    int64_t cut_dim = -1;           ///< of [matrices, n, m], see Trained
    parallel::Group* ranks = nullptr;
  };
  std::vector<Stack> stacks_;
};

}  // namespace folio::train
