#include <algorithm>
#include <sstream>
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
    if (bytes == first) continue;
    std::ostringstream name;
    PrintTo(order, &name);
    const auto at = std::ranges::mismatch(bytes, first).in1 - bytes.begin();
    core::fail(
        "the {} order gives other bytes than the rising order from byte {} on: threads or blocks depend on "
        "their turn",
        name.str(), at);
  }
}

}  // namespace folio::infer::gpu::host
