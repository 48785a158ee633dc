// ZeRO: data parallel ranks hold copies of what only one of them needs at a time. Each parameter gets an owner among
// its data copies, a whole one, so that Muon, which wants whole matrices, works as ever; parameters are dealt out by
// size. Source: Rajbhandari et al., "ZeRO", 2020, section 5; there they are cut into equal parts instead.
//
//   of a parameter    weights          gradient                     moments, momentum
//   --zero 0          all              all      sum to all           all
//   --zero 1          all              all      sum to all           owner   owner updates, and sends it to all
//   --zero 2          all              owner    sum to the owner     owner   likewise
//   --zero 3          owner (sharded.h)  owner  sum to the owner     owner   owner updates; sent when a layer needs it
#pragma once

#include <vector>

#include "train/parallel/data.h"
#include "train/parallel/piece.h"

namespace folio::train::parallel {

/// The data coordinate that owns each piece, so that the largest sum of sizes is small: each piece, the largest first,
/// goes to whoever has least. All ranks along `data` compute the same.
[[nodiscard]] std::vector<int64_t> owners_of(const std::vector<Piece>& pieces, int64_t n_data);

class Zero {
 public:
  /// `stage` 0 to 3.
  Zero(std::vector<Piece>& pieces, World& world, int64_t stage);

  [[nodiscard]] int64_t stage() const { return stage_; }
  /// Whether this rank updates piece i.
  [[nodiscard]] bool owns(size_t i) const { return stage_ == 0 || owners_[i] == world_.mesh().at(Axis::Data); }
  [[nodiscard]] int64_t owner(size_t i) const { return owners_[i]; }

  void before_last_backward();
  /// The gradients of all pieces that this rank owns become the sums over all copies; with stage 2 and 3 the others are
  /// gone. Those of sharded blocks are sums already.
  void finish();
  /// The owners' parameters to all, after the update; but not those of sharded blocks.
  void share();

  [[nodiscard]] double gradient_norm();
  [[nodiscard]] int64_t bytes_sent() const { return sums_ ? sums_->bytes_sent() : 0; }

 private:
  void to_owners();
  [[nodiscard]] bool is_sharded(const Piece& piece) const;

  std::vector<Piece>& pieces_;
  World& world_;
  int64_t stage_;
  std::vector<int64_t> owners_;
  std::unique_ptr<GradientSums> sums_;  ///< with stage 0 and 1
};

}  // namespace folio::train::parallel
