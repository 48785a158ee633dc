// A mesh: the ranks of a run in five dimensions. Ranks that differ in one coordinate only form a line, and each
// parallelism sends along the lines of its own dimension. Ranks that send most, those of a tensor line, are neighbours:
//
//   rank = (((p · data + d) · expert + e) · context + c) · tensor + t
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
  /// True if the ranks differ only in their data.
  [[nodiscard]] bool is_data_alone() const { return n_ranks() == (*this)[Axis::Data]; }
};

/// "data 2 × tensor 2"; "one rank".
[[nodiscard]] std::string to_string(const MeshShape& shape);

/// One rank's place.
class Mesh {
 public:
  Mesh(const MeshShape& shape, int64_t rank);

  [[nodiscard]] const MeshShape& shape() const { return shape_; }
  [[nodiscard]] int64_t rank() const { return rank_; }
  [[nodiscard]] int64_t size(Axis axis) const { return shape_[axis]; }
  /// This rank's coordinate, in [0, size(axis)).
  [[nodiscard]] int64_t at(Axis axis) const { return place_[axis]; }
  /// The ranks that differ from this one in these dimensions at most, ascending.
  [[nodiscard]] std::vector<int64_t> along(const std::vector<Axis>& axes) const;

 private:
  MeshShape shape_;
  int64_t rank_;
  MeshShape place_;  ///< coordinates
};

}  // namespace folio::train::parallel
