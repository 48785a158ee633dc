// The memory nodes of a machine (NUMA): each has processors that are near its memory. Linux tells of them in /sys.
#pragma once

#include <cstddef>
#include <filesystem>
#include <vector>

namespace folio::core {

struct MemoryNode {
  int number = 0;
  std::vector<int> cpus{};  ///< none: any
};

/// The bytes of memory that the machine has, on all of its nodes.
[[nodiscard]] size_t machine_memory();

/// Those with processors that this process may run on, in order; where the system tells of none, one with no list.
[[nodiscard]] std::vector<MemoryNode> memory_nodes(const std::filesystem::path& folder = "/sys/devices/system/node");

/// The calling thread, and those that it starts from now on, run on the node's processors, and take memory there as
/// long as there is some. Does nothing where the system doesn't let it.
void stay_near(const MemoryNode& node);

}  // namespace folio::core
