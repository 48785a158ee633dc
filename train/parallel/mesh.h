// A mesh arranges the ranks of a run in five dimensions, one per parallelism. Ranks that differ only in one coordinate
// form a line, along which that parallelism communicates. Tensor parallelism sends the most data, so the ranks of a
// tensor line are consecutive:
//
//   rank = (((p · data + d) · expert + e) · context + c) · tensor + t        (p: pipeline stage, d: data rank, …)
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace folio::train::parallel {

enum class Axis { Pipeline, Data, Expert, Context, Tensor };
inline constexpr std::array kAxes = {Axis::Pipeline, Axis::Data, Axis::Expert, Axis::Context, Axis::Tensor};

[[nodiscard]] const char* name_of(Axis axis);

/// The number of ranks in each dimension.
struct MeshShape {
  std::array<int64_t, kAxes.size()> sizes{1, 1, 1, 1, 1};  ///< in the order of kAxes

  [[nodiscard]] int64_t operator[](Axis axis) const { return sizes[static_cast<size_t>(axis)]; }
  [[nodiscard]] int64_t& operator[](Axis axis) { return sizes[static_cast<size_t>(axis)]; }
  [[nodiscard]] int64_t n_ranks() const;
  /// Returns true if no dimension other than data has more than one rank; true for a single rank, too.
  [[nodiscard]] bool is_data_alone() const { return n_ranks() == (*this)[Axis::Data]; }
};

/// Returns a description such as "data 2 × tensor 2", or "one rank".
[[nodiscard]] std::string to_string(const MeshShape& shape);

/// One rank's position in the mesh.
class Mesh {
 public:
  Mesh(const MeshShape& shape, int64_t rank);

  [[nodiscard]] const MeshShape& shape() const { return shape_; }
  [[nodiscard]] int64_t rank() const { return rank_; }
  [[nodiscard]] int64_t size(Axis axis) const { return shape_[axis]; }
  /// Returns this rank's coordinate, in [0, size(axis)).
  [[nodiscard]] int64_t at(Axis axis) const { return place_[axis]; }
  /// Returns this rank and all ranks that differ from it only in their coordinates along `axes`, in ascending order.
  [[nodiscard]] std::vector<int64_t> along(const std::vector<Axis>& axes) const;

 private:
  MeshShape shape_;
  int64_t rank_;
  MeshShape place_;  ///< the coordinates of rank_
};

}  // namespace folio::train::parallel
