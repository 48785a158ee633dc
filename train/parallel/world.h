// One rank of a run: its place in the mesh, and the groups that it sends in.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "train/parallel/group.h"
#include "train/parallel/mesh.h"

namespace folio::train::parallel {

class World {
 public:
  /// `store` is common to all ranks. A process alone is a world of one, which needs none.
  World(c10::intrusive_ptr<c10d::Store> store, const MeshShape& shape, int64_t rank,
        std::chrono::milliseconds timeout = std::chrono::seconds(60));
  ~World();

  [[nodiscard]] const Mesh& mesh() const { return mesh_; }
  /// The ranks of mesh().along(axes). Connects at the first call, which all ranks of a group make in the same order.
  [[nodiscard]] Group& along(const std::vector<Axis>& axes);
  /// The first and the last stage of this rank's pipeline, which both hold tied embeddings.
  [[nodiscard]] Group& ends_of_pipeline();
  [[nodiscard]] Group& everyone() { return along({kAxes.begin(), kAxes.end()}); }
  [[nodiscard]] double sum(double value) { return everyone().sum(value); }
  [[nodiscard]] double largest(double value) { return everyone().largest(value); }
  [[nodiscard]] bool is_first() const { return mesh_.rank() == 0; }
  [[nodiscard]] int64_t bytes_sent() const;

 private:
  Group& group_of(const std::vector<int64_t>& ranks);

  c10::intrusive_ptr<c10d::Store> store_;
  Mesh mesh_;
  std::chrono::milliseconds timeout_;
  std::map<std::vector<int64_t>, std::unique_ptr<Group>> groups_;
};

}  // namespace folio::train::parallel
