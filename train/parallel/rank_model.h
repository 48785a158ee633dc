// One rank's part of a model in training. A process alone is a world of one: it holds all, and sends nothing.
//
//   batch ── slice_of ──▶ the rank's tokens ── embed ─▶ its layers ─▶ loss of its tokens ── backward ──▶ its gradients
//                                              (first stage)   │  ▲       (last stage)
//                                                   the next stage │ the stage before
//
// Within a layer tensor, context and expert ranks exchange activations (tensor.h, context.h, expert.h). Gradients are
// then summed over the copies of each parameter (piece.h, zero.h). Files do not depend on ranks: what is saved is
// gathered from all of them, tensor by tensor, and what is loaded is cut.
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

/// A batch of a step, of which this rank has a part.
struct Microbatch {
  TensorBatch tokens;
  double divisor = 1.0;  ///< of the mean over the rank's own targets, in the mean of the step; ∞: it has none
  torch::Tensor loss{};  ///< the rank's part of the step's mean; undefined before, and in earlier stages of a pipeline
};
/// The sum of this rank's losses.
[[nodiscard]] double loss_of(const std::vector<Microbatch>& parts);

/// What a model is for: training, or an average of weights, which is evaluated in LibTorch's operations.
enum class Use { Training, Average };

class RankModel {
 public:
  /// Has the weights that one process draws from LibTorch's generator; with config.lora_rank, the frozen ones, and
  /// adapters. `config` is valid for the world's mesh (validate()). Throws core::UsageError for GPUs without NCCL.
  RankModel(TrainConfig config, World& world, torch::Device device = torch::kCPU, Use use = Use::Training,
            const std::shared_ptr<const core::StoredModel>& frozen = nullptr, torch::ScalarType type = torch::kFloat);
  RankModel(const RankModel&) = delete;
  RankModel& operator=(const RankModel&) = delete;

  [[nodiscard]] World& world() const { return world_; }
  /// All parameters here, in the order of the whole model's; those without a gradient, too.
  [[nodiscard]] std::vector<Piece>& pieces() { return pieces_; }
  [[nodiscard]] std::vector<torch::Tensor> tensors() const;
  /// Whether this rank's optimizer updates the piece; and the gradients of those that it does.
  [[nodiscard]] bool owns(const Piece& piece) const {
    return piece.local.requires_grad() && piece.is_owned_by(world_.mesh());
  }
  [[nodiscard]] std::vector<torch::Tensor> gradients() const;
  [[nodiscard]] std::vector<nn::Mixture>& mixtures() { return mixtures_; }
  /// Without a pipeline; the whole model where is_whole().
  [[nodiscard]] nn::Llama& llama() { return llama_; }
  [[nodiscard]] bool is_whole() const { return is_whole_; }
  [[nodiscard]] const core::ModelConfig& config() const { return config_.model; }

  void train(bool on);
  void zero_grad();
  [[nodiscard]] std::vector<Microbatch> cut(const std::vector<data::Batch>& batches) const;
  /// A microbatch through the layers of a stage, a chunk of this rank: from x of the previous stage to that of the
  /// next, or in the last stage to the rank's part of the step's mean loss, which is stored in `part`, too.
  torch::Tensor forward(Microbatch& part, int64_t chunk = 0, const torch::Tensor& x = {});
  [[nodiscard]] bool has_pipeline() const { return llama_.is_empty(); }
  /// All microbatches through all stages, in the order of a pipeline's schedule, and back where graphs are recorded.
  void run_pipeline(
      std::vector<Microbatch>& parts,
      const std::function<torch::Tensor(Microbatch& part, int64_t chunk, const torch::Tensor& x)>& forward);

  /// Sums of gradients over the copies, and what other ranks own.
  [[nodiscard]] Zero& zero() const { return *zero_; }
  /// This rank's part of the mean loss of a batch, without gradients: the sum over all ranks is the loss.
  double loss(const data::Batch& batch);

  /// Takes the rank's part of each parameter of the whole model.
  void load(const nn::Llama& whole);
  /// A whole model to fill and load(): this one, or one that is as large.
  [[nodiscard]] nn::Llama to_fill();
  /// Collectives, which all ranks call. On rank 0 the whole model, or one with these gradients; others may get none.
  [[nodiscard]] nn::Llama whole() { return put_together(false); }
  [[nodiscard]] nn::Llama whole_gradients() { return put_together(true); }
  /// What belongs to a parameter, of the whole one's shape, where some ranks have it or a part of it; `local` is
  /// undefined or empty on the others.
  [[nodiscard]] torch::Tensor gather(const std::string& parameter, const torch::Tensor& local,
                                     const std::vector<int64_t>& shape);
  /// The part of a parameter, or of its moments, that this rank has.
  [[nodiscard]] torch::Tensor part_of(const std::string& parameter, const torch::Tensor& whole);

 private:
  [[nodiscard]] const Piece* find(const std::string& parameter) const;  ///< null where this rank has none of it
  nn::Llama put_together(bool gradients);

  TrainConfig config_;
  World& world_;
  bool is_whole_;
  std::vector<std::shared_ptr<ShardedBlockImpl>> sharded_;   ///< with zero 3
  nn::Llama llama_{nullptr};                                 ///< without a pipeline,
  std::vector<Chunk> chunks_;                                ///< and with one
  std::vector<std::shared_ptr<torch::nn::Module>> modules_;  ///< these
  std::vector<nn::Mixture> mixtures_;
  std::vector<Piece> pieces_;
  std::unique_ptr<Zero> zero_;
};

/// Calls `body`. An error of c10d inside of a backward pass that sums gradients becomes RankLost.
void naming_lost_ranks(const std::function<void()>& body);

}  // namespace folio::train::parallel
