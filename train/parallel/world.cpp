#include "train/parallel/world.h"

#include <fmt/ranges.h>

#include <torch/csrc/distributed/c10d/Store.hpp>
#include <utility>

#include "core/error.h"

namespace folio::train::parallel {

World::World(c10::intrusive_ptr<c10d::Store> store, const MeshShape& shape, int64_t rank,
             std::chrono::milliseconds timeout)
    : store_(std::move(store)), mesh_(shape, rank), timeout_(timeout) {}

World::~World() = default;

Group& World::along(const std::vector<Axis>& axes) { return group_of(mesh_.along(axes)); }

Group& World::ends_of_pipeline() {
  const int64_t last = mesh_.size(Axis::Pipeline) - 1;
  core::require(mesh_.at(Axis::Pipeline) == 0 || mesh_.at(Axis::Pipeline) == last,
                "rank {} is at no end of its pipeline", mesh_.rank());
  const std::vector<int64_t> line = mesh_.along({Axis::Pipeline});
  return last == 0 ? group_of({line.front()}) : group_of({line.front(), line.back()});
}

double World::sum(double value) {
  const torch::Tensor t = torch::full({1}, value, torch::kDouble);
  everyone().sum(t);
  return t.item<double>();
}

double World::largest(double value) {
  const torch::Tensor t = torch::full({1}, value, torch::kDouble);
  everyone().largest(t);
  return t.item<double>();
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
