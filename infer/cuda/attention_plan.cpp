#include "infer/cuda/attention_plan.h"

#include <algorithm>
#include <bit>

namespace folio::infer {
namespace {

// Splits rows into AttentionItems. If in_groups, pads each sequence with empty items to a multiple of kGroupItems.
std::vector<gpu::AttentionItem> items_of(std::span<const StepRow> rows, int32_t queries, bool in_groups) {
  std::vector<gpu::AttentionItem> items;
  constexpr auto kMost = static_cast<int32_t>(gpu::kItemSlots);
  const int32_t at_once = std::max(1, kMost / queries);
  for (size_t row = 0; row < rows.size();) {
    size_t end = row + 1;
    while (end < rows.size() && rows[end].table == rows[row].table) ++end;
    for (; row < end; row += static_cast<size_t>(at_once)) {
      const auto n = static_cast<int32_t>(std::min(end - row, static_cast<size_t>(at_once)));
      for (int32_t q = 0; q < queries; q += kMost) {
        items.push_back(
            {.row = static_cast<int32_t>(row), .n_rows = n, .query = q, .n_queries = std::min(queries - q, kMost)});
      }
    }
    row = end;
    gpu::AttentionItem none = items.back();
    none.n_rows = 0;
    while (in_groups && items.size() % gpu::kGroupItems != 0) items.push_back(none);
  }
  return items;
}

int64_t parts_of(const gpu::AttentionItem& item, std::span<const StepRow> rows, int64_t window) {
  constexpr auto kPart = static_cast<int64_t>(gpu::kPartPositions);
  const StepRow& first = rows[static_cast<size_t>(item.row)];
  const StepRow& last = rows[static_cast<size_t>(item.row + item.n_rows) - 1];
  return last.position / kPart - std::max<int64_t>(0, first.position + 1 - window) / kPart + 1;
}

}  // namespace

AttentionPlan plan_attention(std::span<const StepRow> rows, const gpu::Heads& heads, const gpu::CacheView& cache,
                             int64_t window) {
  const auto queries = static_cast<int32_t>(heads.queries());
  AttentionPlan plan{.items = items_of(rows, queries, false)};
  int64_t parts = 1;
  for (const gpu::AttentionItem& item : plan.items) {
    plan.n_slots = std::max(plan.n_slots, static_cast<uint32_t>(item.n_rows * item.n_queries));
    parts = std::max(parts, parts_of(item, rows, window));
  }
  plan.max_parts = std::bit_ceil(static_cast<uint32_t>(parts));

  gpu::Attention sizes;
  sizes.heads = heads;
  sizes.cache = cache;
  sizes.n_items = static_cast<uint32_t>(plan.items.size());
  sizes.n_slots = plan.n_slots;
  sizes.max_parts = plan.max_parts;
  if (gpu::partial_bytes(sizes) > kMostPartials) {
    plan.items = items_of(rows, queries, true);
    plan.max_parts = 0;
  }
  return plan;
}

}  // namespace folio::infer
