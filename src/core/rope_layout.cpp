#include "core/rope_layout.h"

#include <cstring>

#include "core/error.h"

namespace folio::core {
namespace {

// Returns the index in Hugging Face's order (halves) of the row that has index r in the order of adjacent pairs.
int64_t split_row(int64_t r, int64_t head_dim) { return (r % 2) * (head_dim / 2) + r / 2; }

template <bool kToSplit>
void permute(std::span<const std::byte> rows, std::span<std::byte> out, int64_t n_heads, int64_t head_dim,
             int64_t row_bytes) {
  const auto size = static_cast<size_t>(n_heads * head_dim * row_bytes);
  require(rows.size() == size && out.size() == size, "a permutation of {} bytes got buffers of {} and {}", size,
          rows.size(), out.size());
  for (int64_t h = 0; h < n_heads; ++h) {
    for (int64_t r = 0; r < head_dim; ++r) {
      const int64_t adjacent = (h * head_dim + r) * row_bytes;
      const int64_t split = (h * head_dim + split_row(r, head_dim)) * row_bytes;
      std::memcpy(out.data() + (kToSplit ? split : adjacent), rows.data() + (kToSplit ? adjacent : split),
                  static_cast<size_t>(row_bytes));
    }
  }
}

}  // namespace

void adjacent_to_split_halves(std::span<const std::byte> rows, std::span<std::byte> out, int64_t n_heads,
                              int64_t head_dim, int64_t row_bytes) {
  permute<true>(rows, out, n_heads, head_dim, row_bytes);
}

void split_halves_to_adjacent(std::span<const std::byte> rows, std::span<std::byte> out, int64_t n_heads,
                              int64_t head_dim, int64_t row_bytes) {
  permute<false>(rows, out, n_heads, head_dim, row_bytes);
}

}  // namespace folio::core
