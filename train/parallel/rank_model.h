// What one rank holds of a model in training, and what ranks do together with it. A process alone is a world of one: it
// holds all, and nothing is sent.
//
//   batch ── slice_of ──▶ the rank's tokens ── embed ─▶ its layers ─▶ loss of its tokens ── backward ──▶ its gradients
//                                              (first stage)   │  ▲       (last stage)
//                                                   the next stage │ the stage before
//
// Within a layer tensor, context and expert ranks send each other activations (tensor.h, context.h, expert.h). What the
// gradients of a rank lack is the sum over the copies of its parameters (piece.h, zero.h). Files know nothing of ranks:
// what is saved is put together from all of them, tensor by tensor, and what is loaded is cut.
#pragma once

#include <functional>
#include <map>
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
  /// adapters. Throws as require_fits() does (parts.h).
  RankModel(TrainConfig config, World& world, torch::Device device = torch::kCPU, Use use = Use::Training,
            const std::shared_ptr<const lora::FrozenWeights>& frozen = nullptr, torch::ScalarType type = torch::kFloat);
  RankModel(const RankModel&) = delete;
  RankModel& operator=(const RankModel&) = delete;

  [[nodiscard]] World& world() const { return world_; }
  /// All parameters here, in the order of the whole model's; those without a gradient, too.
  [[nodiscard]] std::vector<Piece>& pieces() { return pieces_; }
  [[nodiscard]] std::vector<torch::Tensor> tensors() const;
  /// Whether this rank's optimizer updates piece i; and the gradients of those that it does.
  [[nodiscard]] bool owns(size_t i) const { return pieces_[i].local.requires_grad() && zero_->owns(i); }
  [[nodiscard]] std::vector<torch::Tensor> gradients() const;
  [[nodiscard]] std::vector<nn::Mixture>& mixtures() { return mixtures_; }
  /// Without a pipeline; the whole model where is_whole().
  [[nodiscard]] nn::Llama& llama() { return llama_; }
  [[nodiscard]] bool is_whole() const { return is_whole_; }
  [[nodiscard]] bool divides_state() const { return zero_->stage() > 0; }
  [[nodiscard]] const core::ModelConfig& config() const { return config_.model; }

  void train(bool on);
  void zero_grad();
  [[nodiscard]] std::vector<Microbatch> cut(const std::vector<data::Batch>& batches) const;
  /// A microbatch through the layers of a stage, a chunk of this rank: x of the stage before to that of the next, or in
  /// the last to the rank's part of the step's mean loss, which is noted, too.
  torch::Tensor forward(Microbatch& part, int64_t chunk = 0, const torch::Tensor& x = {});
  [[nodiscard]] bool has_pipeline() const { return llama_.is_empty(); }
  [[nodiscard]] bool is_last(int64_t chunk) const;
  /// All microbatches through all stages, in the order of a pipeline's schedule, and back if `backward`.
  void run_pipeline(
      std::vector<Microbatch>& parts, bool backward,
      const std::function<torch::Tensor(Microbatch& part, int64_t chunk, const torch::Tensor& x)>& forward);

  /// Before the step's last backward pass, without a pipeline: sums may begin within it.
  void before_last_backward() { zero_->before_last_backward(); }
  /// Afterwards: the gradients of what this rank owns become the sums over all copies.
  void reduce();
  [[nodiscard]] double gradient_norm();
  /// After the optimizer: what other ranks own, from them.
  void share() { zero_->share(); }
  /// This rank's part of the mean loss of a batch, without gradients: the sum over all ranks is the loss.
  double loss(const data::Batch& batch);

  /// Takes the rank's part of each parameter of the whole model.
  void load(const nn::Llama& whole);
  /// A whole model to fill and load(): this one, or one that is as large.
  [[nodiscard]] nn::Llama to_fill();
  /// Collectives, which all ranks call. On rank 0 the whole model, or one with these gradients; others may get none.
  [[nodiscard]] nn::Llama whole() { return put_together(false); }
  [[nodiscard]] nn::Llama whole_gradients() { return put_together(true); }
  /// What belongs to a parameter, of the whole one's shape, where some ranks have it or a part of it: `here` this one.
  [[nodiscard]] torch::Tensor gather(const std::string& parameter, const torch::Tensor& local, bool here,
                                     const std::vector<int64_t>& shape);
  /// The part of a parameter, or of its moments, that this rank has.
  [[nodiscard]] torch::Tensor part_of(const std::string& parameter, const torch::Tensor& whole);

  [[nodiscard]] int64_t bytes_sent() const { return world_.bytes_sent() + zero_->bytes_sent(); }

 private:
  BlockWrapper wrapper();
  nn::Llama put_together(bool gradients);

  TrainConfig config_;
  World& world_;
  bool is_whole_;
  std::map<int64_t, ShardedBlock> sharded_;                  ///< with zero 3, by their layers
  nn::Llama llama_{nullptr};                                 ///< without a pipeline,
  std::vector<Chunk> chunks_;                                ///< and with one
  std::vector<std::shared_ptr<torch::nn::Module>> modules_;  ///< these
  std::vector<nn::Mixture> mixtures_;
  std::vector<Piece> pieces_;
  std::map<std::string, size_t> index_;  ///< of a parameter among the pieces
  std::unique_ptr<Zero> zero_;
};

/// Calls `body`. An error of c10d inside of a backward pass that sums gradients becomes RankLost.
void naming_lost_ranks(const std::function<void()>& body);

}  // namespace folio::train::parallel
