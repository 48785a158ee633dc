#include "train/parallel/mesh.h"

#include <fmt/format.h>

#include <algorithm>

namespace folio::train::parallel {

const char* name_of(Axis axis) {
  constexpr std::array kNames = {"pipeline", "data", "expert", "context", "tensor"};
  return kNames[static_cast<size_t>(axis)];
}

int64_t MeshShape::n_ranks() const {
  constexpr int64_t kMost = int64_t{1} << 32U;  // clamps the product, so that it cannot overflow
  int64_t n = 1;
  for (const int64_t size : sizes) n = std::min(n * size, kMost);
  return n;
}

std::string to_string(const MeshShape& shape) {
  std::string text;
  for (const Axis axis : kAxes) {
    if (shape[axis] > 1) text += fmt::format("{}{} {}", text.empty() ? "" : " × ", name_of(axis), shape[axis]);
  }
  return text.empty() ? "one rank" : text;
}

Mesh::Mesh(const MeshShape& shape, int64_t rank) : shape_(shape), rank_(rank) {
  for (size_t i = kAxes.size(); i-- > 0;) {
    place_.sizes[i] = rank % shape.sizes[i];
    rank /= shape.sizes[i];
  }
}

std::vector<int64_t> Mesh::along(const std::vector<Axis>& axes) const {
  std::vector<int64_t> ranks;
  for (int64_t rank = 0; rank < shape_.n_ranks(); ++rank) {
    const Mesh other(shape_, rank);
    const bool elsewhere = std::any_of(kAxes.begin(), kAxes.end(), [&](Axis axis) {
      return other.at(axis) != at(axis) && std::find(axes.begin(), axes.end(), axis) == axes.end();
    });
    if (!elsewhere) ranks.push_back(rank);
  }
  return ranks;
}

}  // namespace folio::train::parallel
