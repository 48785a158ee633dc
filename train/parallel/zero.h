// Data parallel ranks have the same weights and other rows of a batch. Their gradients are summed once a step, while
// the backward pass continues with earlier layers:
//
//   rank 0   forward ▷▷▷▷  ◁ layer 3 ◁ layer 2 ◁ layer 1 ◁ layer 0        update
//                                     └ sum ──┘└ sum ──┘└ sum ──┘└ sum ─┘        of 25 MB at a time
//   rank 1   forward ▷▷▷▷  ◁ layer 3 ◁ layer 2 ◁ layer 1 ◁ layer 0        update
//
// c10d's Reducer, the core of DistributedDataParallel, does that where the mesh has no other dimension. On one host
// shared memory (shared_gradients.h), and on other meshes sums along several dimensions (piece.h), follow the backward
// pass.
//
// ZeRO: of a parameter's data copies only its owner keeps what one of them needs. Owners have whole parameters, since
// Muon needs whole matrices; in Rajbhandari et al., "ZeRO", 2020, section 5, ranks have equal parts.
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

namespace c10d {
class Reducer;
}

namespace folio::train::parallel {

/// Sets the owners, so that the largest sum of sizes is small: each piece, the largest first, goes to the data
/// coordinate that has least. All ranks along `data` compute the same.
void assign_owners(std::vector<Piece>& pieces, int64_t n_data);

class SharedGradients;

class Zero {
 public:
  /// `stage` 0 to 3. Sets the owners of the pieces, which must outlive it; with stage 0 each rank owns all of its own.
  Zero(std::vector<Piece>& pieces, World& world, int64_t stage);
  ~Zero();

  [[nodiscard]] int64_t stage() const { return stage_; }

  /// Before the step's last backward pass, without a pipeline: sums may begin within it.
  void before_last_backward();
  /// After it: the gradients of all pieces that this rank owns become the sums over all copies; with stage 2 and 3 the
  /// others are freed. Those of sharded blocks are sums already.
  void finish();
  /// The owners' parameters to all, after the update, except those of sharded blocks.
  void share();

  /// The norm of the whole model's gradient, after finish(): √ Σ |gradient|² / copies over the pieces of all ranks.
  [[nodiscard]] double gradient_norm();

 private:
  void sum_to_all();
  void sum_to_owners();
  [[nodiscard]] bool is_sent(const Piece& piece) const;

  std::vector<Piece>& pieces_;
  World& world_;
  int64_t stage_;
  std::unique_ptr<SharedGradients> shared_;  ///< with stage 0 and 1 where the mesh is data alone, on one host
  std::unique_ptr<c10d::Reducer> reducer_;   ///< else with these where it is data alone
  int64_t bytes_ = 0;                        ///< of the parameters that these two sum
};

}  // namespace folio::train::parallel
