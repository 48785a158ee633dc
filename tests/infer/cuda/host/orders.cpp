#include <utility>

#include "core/error.h"
#include "tests/infer/cuda/host/block.h"
#include "tests/infer/cuda/host/emulator.h"

namespace folio::infer::gpu::host {

Order& order() {
  thread_local Order order;
  return order;
}

OrderScope::OrderScope(Order order) : before_(std::exchange(host::order(), order)) {}
OrderScope::~OrderScope() { order() = before_; }

std::string to_string(Order order) {
  switch (order.kind) {
    case Order::Kind::kRising:
      return "the rising order";
    case Order::Kind::kFalling:
      return "the falling order";
    case Order::Kind::kRandom:
      break;
  }
  return core::message("the random order {}", order.seed);
}

std::vector<Order> all_orders(unsigned n_random) {
  std::vector<Order> orders{{Order::Kind::kRising}, {Order::Kind::kFalling}};
  for (unsigned seed = 1; seed <= n_random; ++seed) orders.push_back({Order::Kind::kRandom, seed});
  return orders;
}

void require_same_in_all_orders(const std::function<std::vector<uint8_t>()>& run, unsigned n_random) {
  std::vector<uint8_t> first;
  for (const Order& order : all_orders(n_random)) {
    const OrderScope scope(order);
    const std::vector<uint8_t> bytes = run();
    if (order.kind == Order::Kind::kRising) first = bytes;
    core::require(bytes.size() == first.size(), "{} gives {} bytes, the rising order {}", to_string(order),
                  bytes.size(), first.size());
    for (size_t i = 0; i < bytes.size(); ++i) {
      core::require(
          bytes[i] == first[i],
          "byte {} is 0x{:02x} in {}, and 0x{:02x} in the rising order: threads or blocks depend on their turn", i,
          bytes[i], [&] { return to_string(order); }, first[i]);
    }
  }
}

}  // namespace folio::infer::gpu::host
