// A GPU emulator. The threads of a block are fibers of one host thread, and blocks run one after another. A thread runs
// until it ends or waits at a barrier, shuffle or tile product. An Order then selects the next thread or block, which
// must not affect results. launch() throws a core::Error with file and line for errors that a GPU mostly ignores:
// diverged lanes, barriers that not all threads reach, copies without a wait, writes beyond an array.
// folio_cuda_races also detects races (races.h).
#pragma once

#include <cstdint>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

namespace folio::infer::gpu::host {

/// The order in which the blocks of a launch, and the runnable threads of a block, run.
struct Order {
  enum class Kind { kRising, kFalling, kRandom };
  Kind kind = Kind::kRising;
  uint64_t seed = 1;  ///< used by kRandom
};
/// Prints the order for messages and GoogleTest: "rising", "falling" or "random_1".
inline void PrintTo(const Order& order, std::ostream* out) {
  if (order.kind == Order::Kind::kRandom) *out << "random_" << order.seed;
  if (order.kind != Order::Kind::kRandom) *out << (order.kind == Order::Kind::kRising ? "rising" : "falling");
}

/// Returns the rising order, the falling order, and `n_random` random orders with different seeds.
[[nodiscard]] std::vector<Order> all_orders(unsigned n_random = 3);

/// Runs this host thread's launches in the given order until the end of the scope.
class OrderScope {
 public:
  explicit OrderScope(Order order);
  ~OrderScope();
  OrderScope(const OrderScope&) = delete;
  OrderScope& operator=(const OrderScope&) = delete;

 private:
  Order before_;
};

/// Calls `run` once in each order of all_orders(n_random). Throws core::Error if the returned bytes differ.
void require_same_in_all_orders(const std::function<std::vector<uint8_t>()>& run, unsigned n_random = 3);

/// The properties of the emulated GPU that devices() returns.
struct DeviceShape {
  int n_devices = 1;
  uint64_t memory_bytes = uint64_t{16} << 30U;
  size_t shared_bytes = size_t{99} << 10U;  ///< per block; the smallest limit of NVIDIA GPUs since 2020
};

/// Sets the shape of the emulated devices for all host threads until the end of the scope. Allocations are kept.
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
