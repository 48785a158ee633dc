// What carries c10d's calls. The one place that knows Gloo's name.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <cstdint>

namespace c10d {
class ProcessGroup;
class Store;
}  // namespace c10d

namespace folio::train::parallel {

/// All `size` ranks of a group meet in the store: connections between each two of them, over TCP. Gloo takes the
/// network interface whose name is in $GLOO_SOCKET_IFNAME, or the one with the host's own address. Throws what c10d
/// does.
[[nodiscard]] c10::intrusive_ptr<c10d::ProcessGroup> connect(const c10::intrusive_ptr<c10d::Store>& store, int64_t rank,
                                                             int64_t size, std::chrono::milliseconds timeout);

}  // namespace folio::train::parallel
