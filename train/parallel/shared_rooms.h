// Memory of a group's ranks that all of them see, where they are on one host: what one rank writes, the others read,
// and nothing goes through a socket. They still meet through Gloo, so a rank that is lost is noticed as ever.
#pragma once

#include <torch/types.h>

#include <memory>
#include <vector>

#include "core/shared_memory.h"
#include "train/parallel/group.h"

namespace folio::train::parallel {

class SharedRooms {
 public:
  /// Room for n numbers of each rank. A collective. Null where the ranks are on several hosts, where /dev/shm lacks the
  /// room, and where $FOLIO_RANK_TRANSPORT is "gloo". Throws core::UsageError if it is neither that nor "shared".
  static std::unique_ptr<SharedRooms> open(Group& group, int64_t n, torch::ScalarType type);

  /// [n], of the rank with this index.
  [[nodiscard]] torch::Tensor room(int64_t index) const { return rooms_[static_cast<size_t>(index)]; }

 private:
  SharedRooms(core::SharedMemory memory, int64_t n_ranks, int64_t n, torch::ScalarType type);

  core::SharedMemory memory_;
  std::vector<torch::Tensor> rooms_;
};

}  // namespace folio::train::parallel
