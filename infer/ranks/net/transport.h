// Transports between processes: messages (peers.h), or shared memory if all of a group's ranks are on one host.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "core/shared_memory.h"
#include "infer/forward/exchange.h"
#include "infer/ranks/net/peers.h"

namespace folio::infer {

/// Connects the ranks of `group`, which includes this rank. All of them must call make_transport() with a channel that
/// only this group uses. Ranks in several groups must connect the groups in the same order. Uses shared memory if
/// RankConfig::shared_memory is set, the ranks are on one host and enough shared memory is free, otherwise messages.
/// all_gather() copies the bytes before it returns.
[[nodiscard]] std::unique_ptr<Transport> make_transport(Peers& peers, Channel channel, std::vector<size_t> group);

/// Returns the size in bytes of the shared memory for `n_members` members.
[[nodiscard]] size_t shared_memory_bytes(size_t n_members);
/// Creates a transport in `memory`, shared_memory_bytes(group.size()) bytes that were zero before any rank called this.
/// `index` is this rank's position in `group`.
[[nodiscard]] std::unique_ptr<Transport> make_shared_memory_transport(Peers& peers, core::SharedMemory memory,
                                                                      std::vector<size_t> group, size_t index);

}  // namespace folio::infer
