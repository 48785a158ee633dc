// Fully sharded parameters (ZeRO stage 3): a block's weights are stored on their owners (zero.h), and on other ranks
// only while the block computes. Gradients are sent to the owners.
//
//   rank 0   owns layers 0, 2    ┌ send 0 ┐ layer 0  free   ┌ get 1 ┐ layer 1  free  …   backward: layer 1 again,
//   rank 1   owns layers 1, 3    └ get 0  ┘ layer 0  free   └ send 1┘ layer 1  free  …   its gradients to rank 1
//
// Only a block's input is saved; the backward pass gathers the weights again and recomputes the block. Embeddings, the
// final norm and the head are not sharded, as in stage 2.
// Source: Rajbhandari et al., "ZeRO", 2020, section 5.3; Zhao et al., "PyTorch FSDP", 2023.
#pragma once

#include <vector>

#include "modules/block.h"
#include "train/parallel/piece.h"

namespace folio::train::parallel {

class ShardedBlockImpl : public nn::BlockImpl {
 public:
  /// Wraps a block; its parameters keep their names.
  explicit ShardedBlockImpl(nn::Block inner);

  /// Frees the parameters that this rank does not own; from then on, each pass gathers them. `pieces` must be all
  /// parameters of the block.
  void shard(std::vector<Piece> pieces, World& world);

  torch::Tensor forward(const torch::Tensor& x, const torch::Tensor& starts = {}) override;

  void train(bool on = true) override;

  /// Allocates memory for all weights of the block. release() frees the weights that this rank does not own.
  void allocate();
  void release();

 private:
  void gather();
  /// Returns the gradient of x, given the output's `gradient`. Adds the weights' gradients, summed over ranks, to the
  /// gradients that their owners store. `autocast`: the forward pass used autocast.
  torch::Tensor backward(const torch::Tensor& x, const torch::Tensor& starts, const torch::Tensor& gradient,
                         const torch::Tensor& random_state, bool autocast);

  nn::Block inner_;
  std::vector<Piece> pieces_;
  std::vector<std::vector<int64_t>> shapes_;
  World* world_ = nullptr;
};

}  // namespace folio::train::parallel
