// A GPU made of fibers. The threads of a block are fibers of one thread of the host, and blocks run one after the
// other. A thread runs on until it meets others (a barrier, a shuffle, a product of tiles) or ends; who runs then, and
// which block comes next, is a matter of the order: a kernel's result may not depend on it. What a GPU forgives most of
// the time is a core::Error out of launch(), with file and line: lanes that don't meet, barriers that not all reach,
// copies that nobody waits for, memory beyond an array. Built as folio_cuda_races, also races (races.h).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace folio::infer::gpu::host {

/// In which order the blocks of a launch run, and of a block's threads those that can.
struct Order {
  enum class Kind { kRising, kFalling, kRandom };
  Kind kind = Kind::kRising;
  uint64_t seed = 1;  ///< of a random order
};
[[nodiscard]] std::string to_string(Order order);

/// Rising, falling, and some random orders.
[[nodiscard]] std::vector<Order> all_orders(unsigned n_random = 3);

/// Launches of this thread of the host run in the given order until the end of the scope.
class OrderScope {
 public:
  explicit OrderScope(Order order);
  ~OrderScope();
  OrderScope(const OrderScope&) = delete;
  OrderScope& operator=(const OrderScope&) = delete;

 private:
  Order before_;
};

/// Runs in all orders. Throws core::Error if one gives other bytes than the first.
void require_same_in_all_orders(const std::function<std::vector<uint8_t>()>& run, unsigned n_random = 3);

/// What devices() tells of the emulated GPU.
struct DeviceShape {
  int n_devices = 1;
  uint64_t memory_bytes = uint64_t{16} << 30U;
  size_t shared_bytes = size_t{99} << 10U;  ///< of a block: what GPUs since 2020 have at least
};

/// The devices have this shape, for all threads of the host, until the end of the scope. What was allocated counts.
class DeviceScope {
 public:
  explicit DeviceScope(DeviceShape shape);
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  DeviceShape before_;
};

}  // namespace folio::infer::gpu::host
