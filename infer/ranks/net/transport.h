// The exchanges of a group of processes: by messages (peers.h), or through memory that the ranks of one host share.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "core/shared_memory.h"
#include "infer/forward/exchange.h"
#include "infer/ranks/net/peers.h"

namespace folio::infer {

/// Connects the ranks of `group`, of which this one is one; every one of them calls it, in the same order of groups.
/// `channel` is this group's alone. Uses shared memory where the world wants it and all are on one host that has room
/// for it. Bytes are copied before all_gather() returns.
[[nodiscard]] std::unique_ptr<Transport> make_transport(Peers& peers, Channel channel, std::vector<size_t> group);

/// Returns the bytes that the shared memory of this many members needs.
[[nodiscard]] size_t shared_memory_bytes(size_t n_members);
/// `index` is this member's. The memory is zero at first.
[[nodiscard]] std::unique_ptr<Transport> make_shared_memory_transport(Peers& peers, core::SharedMemory memory,
                                                                      std::vector<size_t> group, size_t index);

}  // namespace folio::infer
