#include "train/parallel/piece.h"

#include <torch/csrc/autograd/variable.h>
#include <torch/utils.h>

#include "core/error.h"

namespace folio::train::parallel {

std::vector<Axis> Piece::copies() const {
  std::vector<Axis> axes(kAxes.begin(), kAxes.end());
  std::erase_if(axes, [&](Axis axis) { return axis == Axis::Pipeline || (cut_dim >= 0 && axis == by); });
  return axes;
}

int64_t Piece::n_copies(const Mesh& mesh) const {
  int64_t n = tied_ends && mesh.size(Axis::Pipeline) > 1 ? 2 : 1;
  for (const Axis axis : copies()) n *= mesh.size(axis);
  return n;
}

torch::Tensor part_of(const torch::Tensor& whole, const Piece& piece, const Mesh& mesh) {
  if (piece.cut_dim < 0) return whole;
  const int64_t n = whole.size(piece.cut_dim), parts = mesh.size(piece.by);  // a damaged checkpoint may have any n
  core::require(n % parts == 0, "{}: {} rows or columns are not divisible by {} {} ranks", piece.name, n, parts,
                name_of(piece.by));
  return whole.narrow(piece.cut_dim, mesh.at(piece.by) * (n / parts), n / parts);
}

torch::Tensor whole_of(const torch::Tensor& local, const Piece& piece, World& world) {
  const torch::NoGradGuard no_grad;
  if (piece.cut_dim < 0) return local;
  return world.along({piece.by}).gather(local.contiguous(), piece.cut_dim);
}

void sum_at_owner(const torch::Tensor& gradient, const Piece& piece, World& world) {
  std::vector<Axis> others = piece.copies();
  std::erase(others, Axis::Data);
  world.along(others).sum(gradient);
  world.along({Axis::Data}).sum_at(gradient, piece.owner);
  if (piece.tied_ends && piece.is_owned_by(world.mesh())) world.ends_of_pipeline().sum(gradient);
}

void broadcast_from_owner(const Piece& piece, World& world) {
  const torch::NoGradGuard no_grad;
  world.along({Axis::Data}).broadcast(piece.local, piece.owner);
  torch::autograd::impl::bump_version(piece.local);  // invalidates values cached for the old weights
}

}  // namespace folio::train::parallel
