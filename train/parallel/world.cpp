#include "train/parallel/world.h"

#include <fmt/ranges.h>

#include <torch/csrc/distributed/c10d/Store.hpp>
#include <utility>

namespace folio::train::parallel {

World::World(c10::intrusive_ptr<c10d::Store> store, const MeshShape& shape, int64_t rank,
             std::chrono::milliseconds timeout)
    : store_(std::move(store)), mesh_(shape, rank), timeout_(timeout) {}

World::~World() = default;

Group& World::along(const std::vector<Axis>& axes) { return group_of(mesh_.along(axes)); }

Group& World::ends_of_pipeline() {
  const std::vector<int64_t> line = mesh_.along({Axis::Pipeline});
  return line.size() == 1 ? group_of(line) : group_of({line.front(), line.back()});
}

int64_t World::bytes_sent() const {
  int64_t n = 0;
  for (const auto& [ranks, group] : groups_) n += group->bytes_sent();
  return n;
}

Group& World::group_of(const std::vector<int64_t>& ranks) {
  auto& group = groups_[ranks];
  if (!group) {
    group =
        std::make_unique<Group>(store_, fmt::format("ranks {}", fmt::join(ranks, ", ")), ranks, mesh_.rank(), timeout_);
  }
  return *group;
}

}  // namespace folio::train::parallel
