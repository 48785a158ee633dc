// Transports between processes: messages (peers.h), or shared memory if all of a group's ranks are on one host.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "infer/forward/exchange.h"
#include "infer/ranks/net/peers.h"

namespace folio::infer {

/// Connects the ranks of `group`, which includes this rank. All of them must call make_transport() with a channel that
/// only this group uses. Ranks in several groups must connect the groups in the same order. Uses shared memory if
/// RankConfig::shared_memory is set, the ranks are on one host and enough shared memory is free, otherwise messages.
/// all_gather() copies the bytes before it returns.
[[nodiscard]] std::unique_ptr<Transport> make_transport(Peers& peers, Channel channel, std::vector<size_t> group);

}  // namespace folio::infer
