#include "train/parallel/zero.h"

#include <torch/csrc/autograd/variable.h>
#include <torch/utils.h>

#include <algorithm>
#include <numeric>

namespace folio::train::parallel {

using torch::Tensor;

std::vector<int64_t> owners_of(const std::vector<Piece>& pieces, int64_t n_data) {
  std::vector<size_t> order(pieces.size());
  std::iota(order.begin(), order.end(), size_t{0});
  // Both ends of a pipeline hold tied embeddings, and have to give them to the same data coordinate: they come first.
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    if (pieces[a].tied_ends != pieces[b].tied_ends) return pieces[a].tied_ends;
    return pieces[a].local.numel() > pieces[b].local.numel();
  });
  std::vector<int64_t> owners(pieces.size(), 0), held(static_cast<size_t>(n_data), 0);
  for (const size_t i : order) {
    const auto least = std::min_element(held.begin(), held.end());
    owners[i] = least - held.begin();
    *least += pieces[i].local.numel();
  }
  return owners;
}

Zero::Zero(std::vector<Piece>& pieces, World& world, int64_t stage)
    : pieces_(pieces),
      world_(world),
      stage_(world.mesh().size(Axis::Data) > 1 ? stage : 0),
      owners_(owners_of(pieces, world.mesh().size(Axis::Data))) {
  if (stage_ < 2) sums_ = std::make_unique<GradientSums>(pieces, world, stage_ == 1 ? owners_ : std::vector<int64_t>{});
}

void Zero::before_last_backward() {
  if (sums_) sums_->before_last_backward();
}

void Zero::finish() {
  if (sums_) {
    sums_->finish();
  } else {
    to_owners();
  }
}

void Zero::to_owners() {
  const torch::NoGradGuard no_grad;
  Group& data = world_.along({Axis::Data});
  for (size_t i = pieces_.size(); i-- > 0;) {
    Piece& piece = pieces_[i];
    if (!piece.local.requires_grad() || is_sharded(piece)) continue;
    Tensor& gradient = piece.local.mutable_grad();
    if (!gradient.defined()) gradient = torch::zeros_like(piece.local);
    std::vector<Axis> others;
    for (const Axis axis : piece.copies()) {
      if (axis != Axis::Data) others.push_back(axis);
    }
    world_.along(others).sum(gradient);
    data.sum_at(gradient, owners_[i]);
    if (!owns(i)) {
      gradient.reset();
    } else if (piece.tied_ends) {
      world_.ends_of_pipeline().sum(gradient);
    }
  }
}

void Zero::share() {
  if (stage_ == 0) return;
  if (sums_ && sums_->share()) return;
  const torch::NoGradGuard no_grad;
  Group& data = world_.along({Axis::Data});
  for (size_t i = 0; i < pieces_.size(); ++i) {
    const Piece& piece = pieces_[i];
    if (!piece.local.requires_grad() || is_sharded(piece)) continue;
    data.broadcast(piece.local, owners_[i]);
    torch::autograd::impl::bump_version(piece.local);  // what is derived from the weights has to be made anew
  }
}

bool Zero::is_sharded(const Piece& piece) const { return stage_ == 3 && piece.name.starts_with("layers."); }

double Zero::gradient_norm() { return parallel::gradient_norm(pieces_, world_, /*at_owners=*/stage_ >= 2); }

}  // namespace folio::train::parallel
