// Fully sharded parameters, ZeRO's third stage: a block's weights are at their owners (zero.h), and everywhere only
// while the block computes. What comes back is gradients, to the owners.
//
//   rank 0   has layers 0, 2     ┌ send 0 ┐ layer 0  free   ┌ get 1 ┐ layer 1  free  …   backward: layer 1 again,
//   rank 1   has layers 1, 3     └ get 0  ┘ layer 0  free   └ send 1┘ layer 1  free  …   its gradients to rank 1
//
// Nothing of a block is kept but its input: the backward pass gets the weights and computes the block once more.
// Embeddings, the final norm and the head are as in stage 2: whole on all ranks.
// Source: Rajbhandari et al., "ZeRO", 2020, section 5.3; Zhao et al., "PyTorch FSDP", 2023.
#pragma once

#include <memory>
#include <vector>

#include "modules/block.h"
#include "train/parallel/piece.h"

namespace folio::train::parallel {

class ShardedBlockImpl : public nn::BlockImpl {
 public:
  /// The parameters keep the names of the inner block's.
  explicit ShardedBlockImpl(nn::Block inner);

  /// These of the block, and their owners along data, are sharded from now on; release() frees the others' part.
  void shard(std::vector<Piece> pieces, std::vector<int64_t> owners, World& world);

  torch::Tensor forward(const torch::Tensor& x, const torch::Tensor& starts = {}) override;

  void train(bool on = true) override;

  /// Memory for all weights, with the owners' numbers or with none; and only the own ones again.
  void gather();
  void make_room();
  void release();
  /// The gradients of the block's output with respect to its input x. Those of the weights are added to the owners'.
  torch::Tensor backward(const torch::Tensor& x, const torch::Tensor& starts, const torch::Tensor& gradient,
                         const torch::Tensor& random_state);

 private:
  nn::Block inner_;
  std::vector<Piece> pieces_;
  std::vector<int64_t> owners_;
  std::vector<std::vector<int64_t>> shapes_;
  World* world_ = nullptr;
};
TORCH_MODULE(ShardedBlock);

}  // namespace folio::train::parallel
