// What a rank holds of a model's parameters. One rule makes every gradient right, whatever parallelisms are composed:
// ranks that hold the same numbers of a parameter are its copies, each rank computes the gradient of the part of the
// step's mean loss that its own tokens and its own outputs make, and the gradient of each copy becomes their sum.
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

  /// The dimensions along which ranks hold copies; besides, those of tied_ends.
  [[nodiscard]] std::vector<Axis> copies() const;
  [[nodiscard]] int64_t n_copies(const Mesh& mesh) const;
};

/// Of the whole parameter what the rank holds, a view.
[[nodiscard]] torch::Tensor part_of(const torch::Tensor& whole, const Piece& piece, const Mesh& mesh);
/// The parameter's whole tensor, from all ranks of its cut; `local` is the piece's parameter, or its gradient or
/// moment, of the same shape. All ranks along the cut call it.
[[nodiscard]] torch::Tensor whole_of(const torch::Tensor& local, const Piece& piece, World& world);

/// The rule itself: the gradient of each piece that has one becomes the sum over its copies, one after the other.
void sum_over_copies(const std::vector<Piece>& pieces, World& world);

}  // namespace folio::train::parallel
