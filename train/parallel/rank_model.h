// What one rank holds of a model, and how the batches of a step pass through the ranks.
//
//   batch ── slice_of ──▶ the rank's tokens ── embed ─▶ its layers ─▶ loss of its tokens ── backward ──▶ its gradients
//                                              (first stage)   │  ▲       (last stage)
//                                                   the next stage │ the stage before
//
// Within a layer tensor, context and expert ranks send each other activations (tensor.h, context.h, expert.h). What the
// gradients of a rank lack is the sum over the copies of its parameters (piece.h).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "data/batches.h"
#include "modules/experts.h"
#include "modules/llama.h"
#include "train/parallel/parts.h"
#include "train/parallel/piece.h"
#include "train/run/train_config.h"

namespace folio::train::parallel {

class RankModel {
 public:
  /// With `pipeline_chunks` v, a rank of a pipeline of P has v ranges of layers: range c · P + p is chunk c of rank p.
  /// The weights are random; load() sets them. Throws as require_fits() does (parts.h).
  RankModel(const TrainConfig& config, World& world, int64_t pipeline_chunks = 1, const BlockWrapper& wrap = {});

  [[nodiscard]] World& world() const { return world_; }
  /// In the order of the whole model's parameters; those without a gradient, too.
  [[nodiscard]] std::vector<Piece>& pieces() { return pieces_; }
  /// The ranges of layers that it has.
  [[nodiscard]] std::vector<nn::Llama>& chunks() { return chunks_; }
  [[nodiscard]] std::vector<nn::Mixture>& mixtures() { return mixtures_; }

  /// Takes the rank's part of each parameter of the whole model.
  void load(const nn::Llama& whole);

  /// The mean loss of the step's batches, the same on all ranks; adds the rank's own part of their gradients.
  double pass(const std::vector<data::Batch>& batches);
  /// Called before the backward pass of the last batch; only without a pipeline.
  std::function<void()> before_last_backward;

  /// Of each mixture, the rows of all ranks that took each expert in the last pass(), int64 [experts].
  [[nodiscard]] const std::vector<torch::Tensor>& chosen() const { return chosen_; }

  /// As train::mean_loss(), of the model on all ranks.
  double mean_loss(const data::BatchOf& batches, uint64_t first, uint64_t n);

 private:
  struct Part;
  std::vector<Part> cut(const std::vector<data::Batch>& batches) const;
  /// A microbatch through the layers of a chunk: x of the stage before to that of the next, or to what is minimized.
  torch::Tensor forward(nn::Llama& chunk, Part& part, const torch::Tensor& x);
  torch::Tensor balance_loss();
  void run(std::vector<Part>& parts, bool backward);
  void add_chosen();

  TrainConfig config_;
  World& world_;
  std::vector<nn::Llama> chunks_;
  std::vector<nn::Mixture> mixtures_;
  std::vector<Piece> pieces_;
  std::vector<torch::Tensor> chosen_;
};

}  // namespace folio::train::parallel
