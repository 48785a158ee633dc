// A rank's part of a parameter. One rule makes gradients correct for every combination of parallelisms: ranks that hold
// the same elements of a parameter are copies; each rank computes the gradient of its own contribution to the step's
// mean loss; and the gradient of a parameter is the sum over its copies.
#pragma once

#include <torch/types.h>

#include <string>
#include <vector>

#include "train/parallel/world.h"

namespace folio::train::parallel {

struct Piece {
  std::string name;        ///< parameter name in the whole model, such as "layers.3.attention.wq.weight"
  torch::Tensor local;     ///< this rank's tensor: the whole parameter or a part of it
  int64_t cut_dim = -1;    ///< tensor dimension divided among the ranks of axis `by`; -1: not divided
  Axis by = Axis::Tensor;  ///< mesh axis along which cut_dim is divided
  bool tied_ends = false;  ///< true: a tied embedding, stored by the first and the last stage of a pipeline
  int64_t owner = 0;       ///< data coordinate of the rank that updates the parameter (zero.h)

  /// Returns the mesh axes along which ranks have the same elements. n_copies() returns the number of ranks with these
  /// elements, including those of the other end stage if tied_ends is true.
  [[nodiscard]] std::vector<Axis> copies() const;
  [[nodiscard]] int64_t n_copies(const Mesh& mesh) const;
  [[nodiscard]] bool is_owned_by(const Mesh& mesh) const { return owner == mesh.at(Axis::Data); }
};

/// Returns a view of the rank's part of a whole parameter. Throws core::Error if it cannot be divided evenly.
[[nodiscard]] torch::Tensor part_of(const torch::Tensor& whole, const Piece& piece, const Mesh& mesh);
/// Gathers a whole parameter, gradient or optimizer moment from the ranks that it is divided among, and returns it.
/// `local` is this rank's part. Collective.
[[nodiscard]] torch::Tensor whole_of(const torch::Tensor& local, const Piece& piece, World& world);

/// Sums a gradient over all copies of the piece, into the owner's `gradient`. On the other data ranks, the values of
/// `gradient` are unspecified afterwards. Collective.
void sum_at_owner(const torch::Tensor& gradient, const Piece& piece, World& world);
/// Copies the owner's value of the parameter to the other data ranks. Collective.
void broadcast_from_owner(const Piece& piece, World& world);

}  // namespace folio::train::parallel
