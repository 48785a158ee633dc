// The interface of optimizers to the trainer and its checkpoints. adamw.h, muon.h and galore.h have the update rules.
#pragma once

#include <torch/types.h>

#include <memory>
#include <string>
#include <vector>

#include "train/config/train_config.h"
#include "train/parallel/rank_model.h"

namespace folio::train {

/// A parameter that is trained.
struct Trained {
  std::string name;
  torch::Tensor tensor;
  int64_t cut_dim = -1;              ///< of a matrix of which other ranks have parts, the dimension that is cut;
  parallel::Group* ranks = nullptr;  ///< and these ranks
};

/// Those of a model that require a gradient, in its order; or as many as a rank has.
struct Parameters {
  Parameters(const torch::nn::Module& model);
  Parameters(parallel::RankModel& model);
  /// Those that are, or are not, matrices of a block.
  [[nodiscard]] Parameters filtered(bool matrices_of_blocks) const;
  std::vector<Trained> all;
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;

  /// One update with the current gradients times `gradient_scale`, in (0, 1]; they become that product.
  virtual void step(double lr, double gradient_scale) = 0;

  struct State {
    std::string name;  ///< in optimizer.safetensors: what it is, a dot, the parameter
    torch::Tensor tensor;
  };
  /// All that the next step depends on, except the number of steps. The tensors are the optimizer's own, not copies.
  [[nodiscard]] const std::vector<State>& state() const { return state_; }
  [[nodiscard]] int64_t steps() const { return steps_; }
  void set_steps(int64_t steps) { steps_ = steps; }

 protected:
  std::vector<State> state_;
  int64_t steps_ = 0;
};

/// Whether a rule for matrices takes this parameter: it does the matrices of the blocks, and the stacks of experts. The
/// embedding and the output have a row for each token, and most tokens are rare; they are left to AdamW.
[[nodiscard]] bool is_matrix_of_block(const std::string& name, const torch::Tensor& parameter);

/// A collective: all of the state of the ranks' optimizers, on rank 0; in one process that of its own.
[[nodiscard]] std::vector<Optimizer::State> whole_state(const Optimizer& optimizer, parallel::RankModel& model);

/// The optimizer that the config names, with no step done.
[[nodiscard]] std::unique_ptr<Optimizer> make_optimizer(const Parameters& parameters, const TrainConfig& config);

}  // namespace folio::train
