// One rank's part of a model in training. A single process is one rank, which has the whole model and sends nothing.
//
//   batch ── slice_of ──▶ the rank's tokens ── embed ─▶ its layers ─▶ loss of its tokens ── backward ──▶ its gradients
//                                              (first stage)   │  ▲       (last stage)
//                                                   the next stage │ the stage before
//
// Within a layer, tensor, context and expert ranks exchange activations (tensor.h, context.h, expert.h). Gradients are
// then summed over the copies of each parameter (piece.h, zero.h). Files do not depend on the mesh: tensors are
// gathered from all ranks before saving, and cut into parts after loading.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "data/batches.h"
#include "train/parallel/parts.h"
#include "train/parallel/pipeline.h"
#include "train/parallel/sharded.h"
#include "train/parallel/slices.h"
#include "train/parallel/zero.h"

namespace folio::train::parallel {

/// This rank's part of one batch of a step.
struct Microbatch {
  TensorBatch tokens;
  double divisor = 1.0;  ///< divides this part's mean loss: targets in the step / targets in this part; ∞: no targets
  torch::Tensor loss{};  ///< contribution to the step's mean loss; set by the last pipeline stage's forward pass
  double ahead_divisor = 1.0;  ///< like divisor, for the targets of the MTP module (--mtp)
  torch::Tensor ahead_loss{};  ///< like loss, for the MTP module; undefined without --mtp and in evaluations
};
/// Returns the sum of a member of Microbatch, by default `loss`, over this rank's microbatches.
[[nodiscard]] double loss_of(const std::vector<Microbatch>& parts, torch::Tensor Microbatch::*loss = &Microbatch::loss);

/// Purpose of a model: it is trained, or it stores the average of the weights (--ema). An average is only evaluated;
/// its blocks and loss are not fused.
enum class Use { Training, Average };

class RankModel {
 public:
  /// Initializes weights from LibTorch's generator, equal for every mesh, or uses the weights of `frozen` and adds LoRA
  /// adapters. `config` must be valid for the mesh (validate()). Throws core::UsageError for several ranks on GPUs
  /// without NCCL.
  RankModel(TrainConfig config, World& world, torch::Device device = torch::kCPU, Use use = Use::Training,
            const std::shared_ptr<const core::StoredModel>& frozen = nullptr, torch::ScalarType type = torch::kFloat);
  RankModel(const RankModel&) = delete;
  RankModel& operator=(const RankModel&) = delete;

  [[nodiscard]] World& world() const { return world_; }
  /// Returns this rank's parameters in model order, also those without a gradient. tensors() returns their tensors.
  [[nodiscard]] std::vector<Piece>& pieces() { return pieces_; }
  [[nodiscard]] std::vector<torch::Tensor> tensors() const;
  /// Returns true if this rank's optimizer updates the piece. gradients() returns the gradients of all such pieces.
  [[nodiscard]] bool owns(const Piece& piece) const {
    return piece.local.requires_grad() && piece.is_owned_by(world_.mesh());
  }
  [[nodiscard]] std::vector<torch::Tensor> gradients() const;
  [[nodiscard]] std::vector<nn::Mixture>& mixtures() { return mixtures_; }
  /// Returns this rank's model, which is the whole model if is_whole(). With a pipeline, it is empty.
  [[nodiscard]] nn::Llama& llama() { return llama_; }
  [[nodiscard]] bool is_whole() const { return is_whole_; }
  [[nodiscard]] const core::ModelConfig& config() const { return config_.model; }

  void train(bool on);
  void zero_grad();
  [[nodiscard]] std::vector<Microbatch> cut(const std::vector<data::Batch>& batches) const;
  /// Runs a microbatch through one of this rank's chunks; x is the previous stage's output. Returns the next stage's
  /// input or, in the last stage, this rank's contribution to the step's mean loss, which is also stored in `part`. In
  /// training with --mtp, adds the weighted loss of the MTP module.
  torch::Tensor forward(Microbatch& part, int64_t chunk = 0, const torch::Tensor& x = {});
  [[nodiscard]] bool has_pipeline() const { return llama_.is_empty(); }
  /// Runs all microbatches through the pipeline in the order of its schedule, with backward passes if autograd is on.
  /// `forward` runs a microbatch through a chunk, as forward() above does.
  void run_pipeline(
      std::vector<Microbatch>& parts,
      const std::function<torch::Tensor(Microbatch& part, int64_t chunk, const torch::Tensor& x)>& forward);

  /// Returns the object that sums gradients over ranks and broadcasts updated parameters.
  [[nodiscard]] Zero& zero() const { return *zero_; }
  /// Returns this rank's contribution to a batch's mean loss, without gradients. The sum over all ranks is the loss.
  double loss(const data::Batch& batch);

  /// Copies this rank's part of each parameter from the whole model.
  void load(const nn::Llama& whole);
  /// Returns a whole model to fill with weights and pass to load(): this model if is_whole(), else a new one.
  [[nodiscard]] nn::Llama to_fill();
  /// Gathers the model on rank 0; whole_gradients() gathers its gradients. Other ranks may get an empty model.
  /// Collective.
  [[nodiscard]] nn::Llama whole() { return put_together(false); }
  [[nodiscard]] nn::Llama whole_gradients() { return put_together(true); }
  /// Gathers a parameter, or a tensor of the same shape such as a moment, and returns the whole tensor. `local` is this
  /// rank's part, undefined or empty on ranks without one; `shape` is that of the whole parameter. Collective.
  [[nodiscard]] torch::Tensor gather(const std::string& parameter, const torch::Tensor& local,
                                     const std::vector<int64_t>& shape);
  /// Returns this rank's part of `whole`, the named parameter or one of its moments. The rank must have a part of it.
  [[nodiscard]] torch::Tensor part_of(const std::string& parameter, const torch::Tensor& whole);

 private:
  /// Returns true if forward() computes the MTP module's loss: with --mtp in training, but not in evaluations.
  [[nodiscard]] bool trains_ahead() const {
    return config_.model.n_tokens_ahead > 0 && modules_.front()->is_training();
  }
  [[nodiscard]] const Piece* find(const std::string& parameter) const;  ///< null if this rank has no part of it
  nn::Llama put_together(bool gradients);

  TrainConfig config_;
  World& world_;
  bool is_whole_;
  std::vector<std::shared_ptr<ShardedBlockImpl>> sharded_;   ///< this rank's layers with ZeRO stage 3; otherwise empty
  nn::Llama llama_{nullptr};                                 ///< empty with a pipeline
  std::vector<Chunk> chunks_;                                ///< empty without a pipeline
  std::vector<std::shared_ptr<torch::nn::Module>> modules_;  ///< llama_ or chunks_
  std::vector<nn::Mixture> mixtures_;
  std::vector<Piece> pieces_;
  std::unique_ptr<Zero> zero_;
};

/// Calls `body`, and converts c10d's errors, which gradient sums within a backward pass may throw, to RankLost.
void naming_lost_ranks(const std::function<void()>& body);

}  // namespace folio::train::parallel
