#include "tests/infer/cuda/host/races.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/error.h"
#include "tests/infer/cuda/host/block.h"
#include "tests/infer/cuda/host/counts.h"
#include "tests/infer/cuda/host/device_races.h"
#include "tests/infer/cuda/host/shared_races.h"

namespace folio::infer::gpu::host::races {
namespace {

using Ranges = std::vector<std::shared_ptr<DeviceRange>>;  // sorted by address

/// The allocations of device memory, shared by all host threads. A launch checks those that exist when it begins.
struct Registry {
  std::mutex mutex;
  std::shared_ptr<const Ranges> ranges = std::make_shared<const Ranges>();
};

Registry& registry() {
  static Registry registry;
  return registry;
}

/// The race detector of one host thread.
struct Detector {
  SharedRaces shared{SharedMemory::kArenaBytes};
  DeviceRaces device;
  std::shared_ptr<const Ranges> ranges;
  DeviceRange* last = nullptr;  // the range of the last access, which is searched first
  uint32_t block = 0;
  std::string error;
};

constinit thread_local Detector* detector = nullptr;  // null unless a launch runs and has had no error

Detector& detector_of_host_thread() {
  thread_local const auto detector = std::make_unique<Detector>();
  return *detector;
}

void found(Detector& d, std::string error) {
  d.error = std::move(error);
  detector = nullptr;  // only the first error is reported
}

DeviceRange* range_of(Detector& d, const unsigned char* address) {
  const auto holds = [&](const DeviceRange& r) {
    return address + kRedZone >= r.begin() && address < r.begin() + r.bytes() + kRedZone;
  };
  if (d.last != nullptr && holds(*d.last)) return d.last;
  auto next = std::upper_bound(d.ranges->begin(), d.ranges->end(), address + kRedZone,
                               [](const unsigned char* a, const auto& range) { return a < range->begin(); });
  if (next == d.ranges->begin() || !holds(**--next)) return nullptr;
  d.last = next->get();
  return d.last;
}

void touch_shared(Detector& d, const unsigned char* address, size_t bytes, const Access& access) {
  Block& b = block();
  const SharedMemory& shared = b.shared();
  if (!shared.inside(address, bytes)) {
    return found(d, core::message("{} {} {} bytes outside of the shared arrays at {}: {}: correct the index",
                                  b.name(b.current()), present(access.action), bytes, source_of(access.caller),
                                  shared.describe(address)));
  }
  const auto offset = static_cast<size_t>(address - shared.begin());
  for (size_t i = 0; i < bytes; ++i) {
    const auto other = d.shared.touch(offset + i, access);
    if (!other) continue;
    return found(d, core::message("a race in shared memory: {} {} at {} what {} has {} at {} ({}): a barrier between "
                                  "them is missing",
                                  b.name(b.current()), present(access.action), source_of(access.caller),
                                  b.name(b.thread_at(other->thread)), past(other->action), source_of(other->caller),
                                  shared.describe(address + i)));
  }
}

void touch_device(Detector& d, DeviceRange& range, const unsigned char* address, size_t bytes, const Access& access) {
  Block& b = block();
  const auto offset = address - range.begin();
  if (offset < 0 || static_cast<size_t>(offset) + bytes > range.bytes()) {
    return found(d, core::message("{} {} {} bytes at byte {} of device memory at {}, which has {}: correct the index",
                                  b.name(b.current()), present(access.action), bytes, offset, source_of(access.caller),
                                  range.bytes()));
  }
  for (size_t i = 0; i < bytes; ++i) {
    const size_t at = static_cast<size_t>(offset) + i;
    const auto other = d.device.touch(range, at, access);
    if (!other) continue;
    const std::string other_thread = other->block == d.block
                                         ? b.name(b.thread_at(other->access.thread))
                                         : core::message("thread {} of block {}", other->access.thread, other->block);
    return found(d, core::message("a race in device memory: {} {} at {} what {} has {} at {} (byte {} of {}): {}",
                                  b.name(b.current()), present(access.action), source_of(access.caller), other_thread,
                                  past(other->access.action), source_of(other->access.caller), at, range.bytes(),
                                  other->block == d.block ? "a barrier between them is missing"
                                                          : "only __threadfence() and an atomic order blocks"));
  }
}

void touch(const void* where, size_t bytes, Action action, const void* caller) {
  if (detector == nullptr) return;
  Detector& d = *detector;
  Block& b = block();
  const auto* address = static_cast<const unsigned char*>(where);
  const Fiber& fiber = b.current_fiber();
  if (address >= fiber.bottom && address < static_cast<const unsigned char*>(fiber.bottom) + fiber.bytes) return;
  const Access access{action, b.number(b.current()), caller};
  const bool shared = b.shared().holds(address);
  DeviceRange* range = shared ? nullptr : range_of(d, address);
  if (!shared && range == nullptr) return;
  counting::access(shared, action != Action::kRead, where, bytes, caller);
  shared ? touch_shared(d, address, bytes, access) : touch_device(d, *range, address, bytes, access);
}

template <typename Change>
void change_ranges(Change change) {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  auto ranges = std::make_shared<Ranges>(*r.ranges);
  change(*ranges);
  r.ranges = std::move(ranges);
}

auto position(Ranges& ranges, const void* address) {
  return std::lower_bound(ranges.begin(), ranges.end(), address,
                          [](const auto& range, const void* a) { return range->begin() < a; });
}

}  // namespace

void begin_launch() {
  Detector& d = detector_of_host_thread();
  {
    const std::lock_guard lock(registry().mutex);
    d.ranges = registry().ranges;
  }
  d.last = nullptr;
  d.error.clear();
  d.device.begin_launch();
}

void end_launch() {
  detector = nullptr;
  detector_of_host_thread().ranges = nullptr;
}

void begin_block(uint32_t block) {
  Detector& d = detector_of_host_thread();
  d.block = block;
  d.shared.next_interval();
  d.device.begin_block(block);
  detector = &d;
}

void end_block() {
  detector = nullptr;
  Detector& d = detector_of_host_thread();
  d.device.end_block();
  if (!d.error.empty()) throw core::Error(d.error);
}

void barrier() {
  if (detector == nullptr) return;
  detector->shared.next_interval();
  detector->device.barrier();
}

void sync_warp(unsigned warp, uint32_t mask) {
  if (detector != nullptr) detector->shared.sync_warp(warp, mask);
}

void fence() {
  if (detector != nullptr) detector->device.fence(block().number(block().current()));
}

void read(const void* address, size_t bytes, const void* caller) { touch(address, bytes, Action::kRead, caller); }
void write(const void* address, size_t bytes, const void* caller) { touch(address, bytes, Action::kWrite, caller); }
void atomic(const void* address, size_t bytes, const void* caller) {
  if (detector == nullptr) return;
  detector->device.join(address, block().number(block().current()));
  touch(address, bytes, Action::kAtomic, caller);
}

void allocated(const void* address, size_t bytes) {
  change_ranges(
      [&](Ranges& ranges) { ranges.insert(position(ranges, address), std::make_shared<DeviceRange>(address, bytes)); });
}

void freed(const void* address) {
  change_ranges([&](Ranges& ranges) { ranges.erase(position(ranges, address)); });
}

}  // namespace folio::infer::gpu::host::races
