// The optimizer interface that the trainer and checkpoints use. Update rules are in adamw.h, muon.h and galore.h.
#pragma once

#include <torch/types.h>

#include <memory>
#include <string>
#include <vector>

#include "train/config/train_config.h"
#include "train/parallel/rank_model.h"

namespace folio::train {

/// A parameter that the optimizer updates. `tensor` is this rank's part of it.
struct Trained {
  std::string name;
  torch::Tensor tensor;
  int64_t cut_dim = -1;              ///< dimension along which a matrix is divided among ranks; -1: not divided
  parallel::Group* ranks = nullptr;  ///< the ranks that the matrix is divided among; null: not divided
};

/// The parameters to update, in model order: those of a module that require a gradient, or those of a RankModel that
/// this rank owns.
struct Parameters {
  Parameters(const torch::nn::Module& model);
  Parameters(parallel::RankModel& model);
  /// Returns only the matrices of blocks (is_matrix_of_block()), or only the other parameters.
  [[nodiscard]] Parameters filtered(bool matrices_of_blocks) const;
  std::vector<Trained> all;
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;

  /// Scales the gradients in place by `gradient_scale`, in (0, 1], and updates the parameters with them.
  virtual void step(double lr, double gradient_scale) = 0;

  struct State {
    std::string name;  ///< name in optimizer.safetensors, such as "exp_avg.norm.weight"
    torch::Tensor tensor;
  };
  /// Returns the complete state except steps(). The tensors share memory with the optimizer; they are not copies.
  [[nodiscard]] const std::vector<State>& state() const { return state_; }
  [[nodiscard]] int64_t steps() const { return steps_; }
  void set_steps(int64_t steps) { steps_ = steps; }

 protected:
  std::vector<State> state_;
  int64_t steps_ = 0;
};

/// Returns true for matrices of blocks and stacks of experts, which Muon and GaLore update. Embedding and output head
/// are left to AdamW, as most of their rows belong to rare tokens.
[[nodiscard]] bool is_matrix_of_block(const std::string& name, const torch::Tensor& parameter);

/// Gathers the optimizer state of all ranks and returns it on rank 0; the result on other ranks is unspecified.
/// Collective. In a single process, returns the optimizer's state.
[[nodiscard]] std::vector<Optimizer::State> whole_state(const Optimizer& optimizer, parallel::RankModel& model);

/// Creates the optimizer that config.optimizer selects; steps() is 0 and all moments are zero.
[[nodiscard]] std::unique_ptr<Optimizer> make_optimizer(const Parameters& parameters, const TrainConfig& config);

}  // namespace folio::train
