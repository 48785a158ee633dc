// Muon (Jordan et al. 2024, https://kellerjordan.github.io/posts/muon/) for the matrices of the blocks, AdamW for
// embeddings, an output of its own, norms and biases. Momentum makes a matrix's step; then its singular values are
// brought to about 1, so that all directions count alike. In plain tensor operations on all matrices of one shape at a
// time.
#pragma once

#include <torch/types.h>

#include <string>
#include <vector>

#include "train/step/adamw.h"
#include "train/step/optimizer.h"

namespace folio::train {

/// The nearest matrix to g [n, m] whose singular values are all about 1: U Vᵀ for g = U S Vᵀ, by five Newton-Schulz
/// steps. Values of at least 0.0015 of g's norm end between 0.68 and 1.21, and smaller ones come out smaller. A matrix
/// of zeros stays one. With g [k, n, m], so for each of k matrices. Computes in g's type; bfloat16 will do. Source:
/// Jordan et al. 2024, with their coefficients.
[[nodiscard]] torch::Tensor orthogonalized(const torch::Tensor& g);

/// With momentum µ, decay λ and the gradient G of a matrix W [n, m] of a block:
///   M = µ M + G
///   W = W - lr λ W - lr 0.2 √max(n, m) orthogonalized(G + µ M)
/// G + µ M is Nesterov's momentum. The scale is that of Liu et al. 2025, "Muon is Scalable for LLM Training"
/// (arXiv:2502.16982): U Vᵀ has a root mean square of 1 / √max(n, m), and AdamW's updates one of 0.2 to 0.4. So both
/// optimizers take steps of one size at one lr, and one lr, schedule and decay serve both: no rate for Muon alone.
/// M and W are float32; with the dtype bf16, orthogonalized() is in bfloat16, as in torch.optim.Muon.
class Muon : public Optimizer {
 public:
  /// Matrices of blocks ("layers. …") decay; the others as in AdamW. Where ranks have parts of matrices, each has the
  /// same part of M, and all of them compute the whole step.
  Muon(const Parameters& parameters, const TrainConfig& config);

  void step(double lr, double gradient_scale = 1.0) override;

  [[nodiscard]] const std::vector<torch::Tensor>& parameters() const override { return parameters_; }
  /// "momentum_buffer.NAME" is M, as in torch.optim.Muon; then AdamW's.
  [[nodiscard]] std::vector<State> state() const override;
  [[nodiscard]] int64_t steps() const override { return others_.steps(); }
  void set_steps(int64_t steps) override { others_.set_steps(steps); }

 private:
  // Matrices of one shape, which are updated together.
  struct Stack {
    std::vector<std::string> names;  ///< of the parameters, each a matrix, or as many as there are experts
    std::vector<torch::Tensor> parameters;
    torch::Tensor momentum;  ///< [matrices, n, m]
    int64_t cut_dim = -1;    ///< of [matrices, n, m], as Trained has it
    parallel::Group* ranks = nullptr;
  };

  double momentum_, weight_decay_;
  bool bf16_;
  std::vector<Stack> stacks_;
  AdamW others_;
  std::vector<torch::Tensor> parameters_;
};

}  // namespace folio::train
