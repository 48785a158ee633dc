// NUMA nodes, each with processors and the memory that is local to them, as Linux lists them in /sys.
#pragma once

#include <cstddef>
#include <filesystem>
#include <vector>

namespace folio::core {

struct MemoryNode {
  int number = 0;
  std::vector<int> cpus{};  ///< numbers of the node's processors; empty: any processor
};

/// Returns the machine's total memory in bytes.
[[nodiscard]] size_t machine_memory();

/// Returns the nodes with processors available to this process, in the order of their numbers, or a single node with
/// empty `cpus` if none are found.
[[nodiscard]] std::vector<MemoryNode> memory_nodes(const std::filesystem::path& folder = "/sys/devices/system/node");

/// Pins the calling thread, and threads that it starts later, to the node's processors. Their allocations prefer the
/// node's memory. Does nothing if the system does not permit it.
void stay_near(const MemoryNode& node);

}  // namespace folio::core
