#include "core/rope_layout.h"

#include <cstring>

#include "core/error.h"

namespace folio::core {

void reorder_rows(RopePairs to, std::span<const std::byte> rows, std::span<std::byte> out, int64_t head_dim,
                  int64_t row_bytes) {
  const auto n_rows = static_cast<int64_t>(rows.size()) / row_bytes;
  require(rows.size() == out.size() && rows.size() % static_cast<size_t>(head_dim * row_bytes) == 0,
          "a permutation of heads of {} rows of {} bytes got buffers of {} and {}", head_dim, row_bytes, rows.size(),
          out.size());
  for (int64_t r = 0; r < n_rows; ++r) {
    const int64_t in_head = r % head_dim;
    const int64_t adjacent = r * row_bytes;
    const int64_t halves = (r - in_head + in_head % 2 * (head_dim / 2) + in_head / 2) * row_bytes;
    const bool to_halves = to == RopePairs::Halves;
    std::memcpy(out.data() + (to_halves ? halves : adjacent), rows.data() + (to_halves ? adjacent : halves),
                static_cast<size_t>(row_bytes));
  }
}

std::vector<float> reordered_rows(RopePairs to, const std::vector<float>& rows, int64_t head_dim, size_t width) {
  std::vector<float> out(rows.size());
  reorder_rows(to, std::as_bytes(std::span(rows)), std::as_writable_bytes(std::span(out)), head_dim,
               static_cast<int64_t>(width * sizeof(float)));
  return out;
}

}  // namespace folio::core
