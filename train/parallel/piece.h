// The part of a model's parameters that a rank holds. One rule makes every gradient right, whatever parallelisms are
// composed: ranks that hold the same elements of a parameter are its copies, each rank computes the gradient of the
// part of the step's mean loss that its own tokens and its own outputs make, and the gradient of each copy becomes
// their sum.
#pragma once

#include <torch/types.h>

#include <string>
#include <vector>

#include "train/parallel/world.h"

namespace folio::train::parallel {

struct Piece {
  std::string name;        ///< of the parameter in the whole model: "layers.3.attention.wq.weight"
  torch::Tensor local;     ///< the rank's own parameter, whole or a part
  int64_t cut_dim = -1;    ///< the dimension along which the ranks of `by` have a part each; -1: it is whole
  Axis by = Axis::Tensor;  ///< where it is cut
  bool tied_ends = false;  ///< held by the first and by the last stage of a pipeline
  int64_t owner = 0;       ///< the data coordinate that updates it (zero.h)

  /// The dimensions along which ranks hold copies, besides tied_ends.
  [[nodiscard]] std::vector<Axis> copies() const;
  [[nodiscard]] int64_t n_copies(const Mesh& mesh) const;
  [[nodiscard]] bool is_owned_by(const Mesh& mesh) const { return owner == mesh.at(Axis::Data); }
};

/// The part of the whole parameter that the rank holds, a view.
[[nodiscard]] torch::Tensor part_of(const torch::Tensor& whole, const Piece& piece, const Mesh& mesh);
/// The whole tensor, from all ranks along the cut; `local` is the piece's parameter, gradient or moment.
[[nodiscard]] torch::Tensor whole_of(const torch::Tensor& local, const Piece& piece, World& world);

/// A gradient of the piece becomes the sum over its copies, at the owner among the data copies; that of the others is
/// undefined. All copies call it.
void sum_at_owner(const torch::Tensor& gradient, const Piece& piece, World& world);
/// The piece's parameter becomes what it is at the owner among its data copies. All of these call it.
void broadcast_from_owner(const Piece& piece, World& world);

}  // namespace folio::train::parallel
