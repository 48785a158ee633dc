// Fully sharded parameters, ZeRO's third stage: a block's weights are at their owners (zero.h), and on other ranks only
// while the block computes. Their gradients go to the owners.
//
//   rank 0   has layers 0, 2     ┌ send 0 ┐ layer 0  free   ┌ get 1 ┐ layer 1  free  …   backward: layer 1 again,
//   rank 1   has layers 1, 3     └ get 0  ┘ layer 0  free   └ send 1┘ layer 1  free  …   its gradients to rank 1
//
// Of a block only the input is kept: the backward pass gets the weights and computes the block once more. Embeddings,
// the final norm and the head are as in stage 2: whole on all ranks.
// Source: Rajbhandari et al., "ZeRO", 2020, section 5.3; Zhao et al., "PyTorch FSDP", 2023.
#pragma once

#include <vector>

#include "modules/block.h"
#include "train/parallel/piece.h"

namespace folio::train::parallel {

class ShardedBlockImpl : public nn::BlockImpl {
 public:
  /// The parameters keep the names of the inner block's.
  explicit ShardedBlockImpl(nn::Block inner);

  /// The block's pieces, which are sharded from now on.
  void shard(std::vector<Piece> pieces, World& world);

  torch::Tensor forward(const torch::Tensor& x, const torch::Tensor& starts = {}) override;

  void train(bool on = true) override;

  /// Allocates memory for all weights. release() frees those of other owners.
  void make_room();
  void release();

 private:
  void gather();
  /// From the gradient of the block's output that of its input x. Those of the weights are added to the owners'.
  torch::Tensor backward(const torch::Tensor& x, const torch::Tensor& starts, const torch::Tensor& gradient,
                         const torch::Tensor& random_state);

  nn::Block inner_;
  std::vector<Piece> pieces_;
  std::vector<std::vector<int64_t>> shapes_;
  World* world_ = nullptr;
};

}  // namespace folio::train::parallel
