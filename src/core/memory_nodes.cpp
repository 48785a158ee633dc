#include "core/memory_nodes.h"

#include <linux/mempolicy.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <string>

namespace folio::core {
namespace {

// Reads a list of numbers and ranges in Linux's format: "0-3,8,10-11". A missing file is an empty list.
std::vector<int> numbers_in(const std::filesystem::path& path) {
  std::vector<int> numbers;
  std::ifstream file(path);
  for (int first = 0; file >> first; file.ignore()) {  // ignores the comma
    int last = first;
    if (file.peek() == '-') file.ignore() >> last;
    for (int n = first; n <= last && n < CPU_SETSIZE; ++n) numbers.push_back(n);
  }
  return numbers;
}

}  // namespace

size_t machine_memory() {
  return static_cast<size_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(::sysconf(_SC_PAGESIZE));
}

std::vector<MemoryNode> memory_nodes(const std::filesystem::path& folder) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  const bool known = ::sched_getaffinity(0, sizeof allowed, &allowed) == 0;
  std::vector<MemoryNode> nodes;
  for (const int number : numbers_in(folder / "online")) {
    MemoryNode node{.number = number};
    node.cpus = numbers_in(folder / ("node" + std::to_string(number)) / "cpulist");
    std::erase_if(node.cpus, [&](int cpu) { return known && !CPU_ISSET(static_cast<size_t>(cpu), &allowed); });
    if (!node.cpus.empty()) nodes.push_back(std::move(node));
  }
  if (nodes.empty()) nodes.emplace_back();
  return nodes;
}

void stay_near(const MemoryNode& node) {
  if (node.cpus.empty()) return;
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  for (const int cpu : node.cpus) CPU_SET(static_cast<size_t>(cpu), &cpus);
  static_cast<void>(::sched_setaffinity(0, sizeof cpus, &cpus));
  std::array<unsigned long, 16> mask{};  // one bit per node, for 1,024 nodes
  constexpr size_t kBits = 8 * sizeof(unsigned long);
  const auto bit = static_cast<size_t>(node.number);
  if (bit >= mask.size() * kBits) return;
  mask[bit / kBits] = 1UL << bit % kBits;
  static_cast<void>(::syscall(SYS_set_mempolicy, MPOL_PREFERRED, mask.data(), mask.size() * kBits));
}

}  // namespace folio::core
