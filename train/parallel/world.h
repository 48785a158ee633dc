// One rank of a run: its position in the mesh, and its communication groups.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <vector>

#include "train/parallel/group.h"
#include "train/parallel/mesh.h"

namespace folio::train::parallel {

class World {
 public:
  /// `store` must be a connection to the same store on all ranks. A single process may pass null. `timeout` limits each
  /// wait for other ranks.
  World(c10::intrusive_ptr<c10d::Store> store, const MeshShape& shape, int64_t rank,
        std::chrono::milliseconds timeout = std::chrono::seconds(60));
  ~World();

  [[nodiscard]] const Mesh& mesh() const { return mesh_; }
  /// Returns the group of this rank and all ranks that differ from it only in their coordinates along `axes`. The first
  /// call connects the group; its ranks must connect their groups in the same order.
  [[nodiscard]] Group& along(const std::vector<Axis>& axes);
  /// Returns the group of the first and last stage of this rank's pipeline, which both store tied embeddings. Other
  /// stages must not call it.
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
