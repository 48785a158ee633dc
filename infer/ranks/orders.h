// What rank 0 tells the others to do, as bytes: a step, or something about an adapter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/adapter.h"
#include "infer/forward/machine.h"

namespace folio::infer {

enum class OrderKind : uint8_t { Step, LoadAdapter, UnloadAdapter, End };

struct Order {
  OrderKind kind = OrderKind::End;
  uint32_t stage = 0;  ///< of those that the machine loaded, counted from 0

  // Of a Step, without draws: the host draws.
  std::vector<StepRow> rows{};
  std::vector<BlockId> tables{};
  std::vector<int32_t> table_starts{};
  std::vector<BlockCopy> copies{};
  uint64_t n_logit_rows = 0;
  bool observed = false;

  // Of an adapter.
  int32_t number = kNoAdapter;
  core::Adapter adapter{};

  /// A view of the step, as long as the order is there.
  [[nodiscard]] Step step() const;
};

/// Of a Step, and of the End with an empty one.
[[nodiscard]] std::vector<std::byte> to_bytes(OrderKind kind, uint32_t stage, const Step& step);
[[nodiscard]] std::vector<std::byte> to_bytes(OrderKind kind, uint32_t stage, int32_t number,
                                              const core::Adapter& adapter);
/// Throws core::Error if the bytes are not those of an order.
[[nodiscard]] Order to_order(std::span<const std::byte> bytes);

}  // namespace folio::infer
