// What carries c10d's calls: Gloo tensors on CPUs, and NCCL those on GPUs where LibTorch has it.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <cstdint>

namespace c10d {
class ProcessGroup;
class Store;
}  // namespace c10d

namespace folio::train::parallel {

/// Whether ranks of this build can send each other what is on GPUs.
[[nodiscard]] bool has_nccl();

/// All `size` ranks of a group meet in the store: connections between each two of them, over TCP. Gloo takes the
/// network interface whose name is in $GLOO_SOCKET_IFNAME, or the one with the host's own address. NCCL connects at the
/// first call with a tensor on a GPU. Throws what c10d does.
[[nodiscard]] c10::intrusive_ptr<c10d::ProcessGroup> connect(const c10::intrusive_ptr<c10d::Store>& store, int64_t rank,
                                                             int64_t size, std::chrono::milliseconds timeout);

}  // namespace folio::train::parallel
