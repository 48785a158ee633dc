// Orders: the messages by which rank 0 makes the other ranks run a step, load or unload an adapter, or end. In an
// observed step, each operation is an order of its own, since rank 0 may change activations between operations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/adapter.h"
#include "infer/forward/machine.h"

namespace folio::infer {

enum class OrderKind : uint8_t { Step, Operation, Write, LoadAdapter, UnloadAdapter, End };

struct Order {
  OrderKind kind = OrderKind::End;
  uint32_t stage = 0;  ///< index of the model's stage, in the order of loading

  // Fields of Step orders, from struct Step. Step::draws is not sent: the host of rank 0 samples tokens.
  std::vector<StepRow> rows{};
  std::vector<BlockId> tables{};
  std::vector<int32_t> table_starts{};
  std::vector<BlockCopy> copies{};
  uint64_t n_logit_rows = 0;
  bool observed = false;
  std::vector<float> values{};  ///< Step::residual, which may be empty, or the values to write to `slot`

  Operation operation{Gather{}};
  Slot slot{};

  // The adapter to load or unload. `adapter` is empty in an order to unload.
  int32_t number = kNoAdapter;
  core::Adapter adapter{};

  /// Returns a view of the step, valid as long as the order.
  [[nodiscard]] Step step() const;
};

[[nodiscard]] Order order_of(uint32_t stage, const Step& step);
[[nodiscard]] std::vector<std::byte> to_bytes(const Order& order);
/// Parses an order. Throws core::Error if `bytes` are truncated or have trailing bytes.
[[nodiscard]] Order to_order(std::span<const std::byte> bytes);

}  // namespace folio::infer
