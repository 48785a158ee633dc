// Data parallel ranks: all hold the same weights and see other rows of a batch. What they send is gradients, once a
// step, and they do so while the backward pass goes on: it ends with the first layers, so the last ones' can go first.
//
//   rank 0   forward ▷▷▷▷  ◁ layer 3 ◁ layer 2 ◁ layer 1 ◁ layer 0        update
//                                     └ sum ──┘└ sum ──┘└ sum ──┘└ sum ─┘        of 25 MB at a time
//   rank 1   forward ▷▷▷▷  ◁ layer 3 ◁ layer 2 ◁ layer 1 ◁ layer 0        update
//
// c10d's Reducer, which is the inside of DistributedDataParallel, does that where the mesh has no other dimension; on
// one host, shared memory (shared_gradients.h), when the backward pass has ended. Else gradients have sums along
// several dimensions, and these are done then, too (piece.h).
#pragma once

#include <memory>
#include <vector>

#include "train/parallel/piece.h"
#include "train/parallel/shared_gradients.h"

namespace folio::train::parallel {

class GradientSums {
 public:
  /// The pieces stay where they are. Their parameters get their gradients from backward passes. `owners`: who updates
  /// each piece, a data coordinate; none, if all do.
  GradientSums(std::vector<Piece>& pieces, World& world, const std::vector<int64_t>& owners = {});
  ~GradientSums();

  /// Before the step's last backward pass.
  void before_last_backward();
  /// After it: the gradient of each piece that requires one is now the sum over its copies.
  void finish();

  /// Each parameter becomes what it is at its owner. False where the ranks share no memory: nothing is done.
  bool share();

  /// Bytes that c10d's Reducer has sent, or that went through shared memory.
  [[nodiscard]] int64_t bytes_sent() const;

 private:
  struct Overlapped;
  std::vector<Piece>& pieces_;
  World& world_;
  std::unique_ptr<SharedGradients> shared_;  ///< where the mesh is data alone, on one host
  std::unique_ptr<Overlapped> overlapped_;   ///< else where it is data alone
};

/// Whether the ranks differ in their data alone.
[[nodiscard]] bool is_data_alone(const MeshShape& shape);

/// The norm of the whole model's gradient, after finish(): where each rank has all of it, as norm_of() computes it;
/// else √ Σ |gradient|² / copies over the pieces of all ranks. `at_owners`: of the data copies of a piece, only one has
/// its gradient (zero.h).
[[nodiscard]] double gradient_norm(const std::vector<Piece>& pieces, World& world, bool at_owners = false);

/// The norm of all these together.
[[nodiscard]] double norm_of(const std::vector<torch::Tensor>& gradients);

}  // namespace folio::train::parallel
