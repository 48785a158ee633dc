// Data parallelism with optional ZeRO. Data parallel ranks have the same weights and different rows of a batch. Their
// gradients are summed once per step, while the backward pass continues with earlier layers:
//
//   rank 0   forward ▷▷▷▷  ◁ layer 3 ◁ layer 2 ◁ layer 1 ◁ layer 0        update
//                                     └ sum ──┘└ sum ──┘└ sum ──┘└ sum ─┘        sums of about 25 MB
//   rank 1   forward ▷▷▷▷  ◁ layer 3 ◁ layer 2 ◁ layer 1 ◁ layer 0        update
//
// c10d's Reducer, the core of DistributedDataParallel, does this if the mesh is purely data parallel. Sums in shared
// memory (shared_gradients.h, on one host) and sums along several dimensions (piece.h, on other meshes) start after the
// backward pass.
//
// ZeRO stores state only on a parameter's owner, one of the data ranks. Ownership is per parameter, since Muon needs
// whole matrices; Rajbhandari et al., "ZeRO", 2020, section 5, divide parameters into equal parts.
//
//   stored on       weights              gradient                  optimizer state
//   --zero 0        all                  all     all-reduce        all
//   --zero 1        all                  all     all-reduce        owner   owner updates, then broadcasts
//   --zero 2        all                  owner   reduce to owner   owner   owner updates, then broadcasts
//   --zero 3        owner (sharded.h)    owner   reduce to owner   owner   owner updates; broadcast before each use
#pragma once

#include <memory>
#include <vector>

#include "train/parallel/piece.h"

namespace c10d {
class Reducer;
}

namespace folio::train::parallel {

/// Sets Piece::owner so that all n_data owners have similar numbers of elements: each piece, largest first, is assigned
/// to the data rank with the fewest elements so far. All data ranks compute the same result.
void assign_owners(std::vector<Piece>& pieces, int64_t n_data);

class SharedGradients;

class Zero {
 public:
  /// Sets the owners of `pieces`, which must outlive this object. `stage` is 0 to 3; with 0, each rank owns all pieces.
  Zero(std::vector<Piece>& pieces, World& world, int64_t stage);
  ~Zero();

  [[nodiscard]] int64_t stage() const { return stage_; }

  /// Must be called before the step's last backward pass, during which c10d's Reducer, if used, sums gradients. Not
  /// needed with a pipeline.
  void before_last_backward();
  /// Completes gradients after the last backward pass: sums the gradient of each piece that this rank owns over all
  /// copies. With stage 2 or 3, frees the gradients of other pieces. Gradients of sharded blocks are already summed.
  void finish();
  /// Broadcasts parameters from their owners after the update, except those of sharded blocks.
  void share();

  /// Returns the norm of the whole model's gradient. Collective; must be called after finish().
  [[nodiscard]] double gradient_norm();

 private:
  void sum_to_all();
  void sum_to_owners();
  [[nodiscard]] bool is_sent(const Piece& piece) const;

  std::vector<Piece>& pieces_;
  World& world_;
  int64_t stage_;
  std::unique_ptr<SharedGradients> shared_;  ///< stages 0 and 1, data parallelism only, one host; else null
  std::unique_ptr<c10d::Reducer> reducer_;   ///< stages 0 and 1, data parallelism only, no shared memory; else null
  int64_t bytes_ = 0;                        ///< size of the gradients that shared_ or reducer_ sums
};

}  // namespace folio::train::parallel
