// Data parallel ranks hold the same weights and see other rows of a batch. Their gradients are summed once a step,
// while the backward pass goes on: it ends with the first layers, so the last ones' can be sent first.
//
//   rank 0   forward ▷▷▷▷  ◁ layer 3 ◁ layer 2 ◁ layer 1 ◁ layer 0        update
//                                     └ sum ──┘└ sum ──┘└ sum ──┘└ sum ─┘        of 25 MB at a time
//   rank 1   forward ▷▷▷▷  ◁ layer 3 ◁ layer 2 ◁ layer 1 ◁ layer 0        update
//
// c10d's Reducer, the core of DistributedDataParallel, does that where the mesh has no other dimension; on one host,
// shared memory (shared_gradients.h), after the backward pass. On other meshes gradients have sums along several
// dimensions (piece.h), also after the backward pass.
//
// ZeRO: each parameter gets an owner among its data copies, which alone keeps what only one of them needs. It is owned
// whole, so that Muon has whole matrices. Source: Rajbhandari et al., "ZeRO", 2020, section 5; there parameters are cut
// into equal parts instead.
//
//   of a parameter    weights          gradient                     moments, momentum
//   --zero 0          all              all      sum to all           all
//   --zero 1          all              all      sum to all           owner   owner updates, and sends it to all
//   --zero 2          all              owner    sum to the owner     owner   likewise
//   --zero 3          owner (sharded.h)  owner  sum to the owner     owner   owner updates; sent when a layer needs it
#pragma once

#include <memory>
#include <vector>

#include "train/parallel/piece.h"

namespace folio::train::parallel {

/// The data coordinate that owns each piece, so that the largest sum of sizes is small: each piece, the largest first,
/// goes to the one that has least. All ranks along `data` compute the same.
[[nodiscard]] std::vector<int64_t> owners_of(const std::vector<Piece>& pieces, int64_t n_data);

/// Whether the ranks differ in their data alone.
[[nodiscard]] bool is_data_alone(const MeshShape& shape);

class SharedGradients;

class Zero {
 public:
  /// `stage` 0 to 3. The pieces must outlive it.
  Zero(std::vector<Piece>& pieces, World& world, int64_t stage);
  ~Zero();

  [[nodiscard]] int64_t stage() const { return stage_; }
  /// Whether this rank updates piece i.
  [[nodiscard]] bool owns(size_t i) const { return stage_ == 0 || owners_[i] == world_.mesh().at(Axis::Data); }
  [[nodiscard]] int64_t owner(size_t i) const { return owners_[i]; }

  /// Before the step's last backward pass.
  void before_last_backward();
  /// After it: the gradients of all pieces that this rank owns become the sums over all copies; with stage 2 and 3 the
  /// others are freed. Those of sharded blocks are sums already.
  void finish();
  /// The owners' parameters to all, after the update, except those of sharded blocks.
  void share();

  /// The norm of the whole model's gradient, after finish(): where each rank has all of it, as norm_of() computes it;
  /// else √ Σ |gradient|² / copies over the pieces of all ranks.
  [[nodiscard]] double gradient_norm();
  /// Bytes that c10d's Reducer has sent, or that went through shared memory.
  [[nodiscard]] int64_t bytes_sent() const;

 private:
  struct Overlapped;
  void sum_to_all();
  void sum_to_owners();
  [[nodiscard]] bool is_sent(const Piece& piece) const;

  std::vector<Piece>& pieces_;
  World& world_;
  int64_t stage_;
  std::vector<int64_t> owners_;
  std::unique_ptr<SharedGradients> shared_;  ///< with stage 0 and 1 where the mesh is data alone, on one host
  std::unique_ptr<Overlapped> overlapped_;   ///< else with these where it is data alone
};

/// The norm of all these together.
[[nodiscard]] double norm_of(const std::vector<torch::Tensor>& gradients);

}  // namespace folio::train::parallel
