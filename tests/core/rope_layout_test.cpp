// Tests core/rope_layout.h: the permutation of each head's rows between adjacent and split RoPE pairs, and its inverse.
#include "core/rope_layout.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "tests/core/support.h"

namespace folio::core {
namespace {

using Permutation = void (*)(std::span<const std::byte>, std::span<std::byte>, int64_t, int64_t, int64_t);

// Applies a permutation of core/rope_layout.h to rows of `columns` floats each.
template <Permutation kPermute>
void permute(std::span<const float> rows, std::span<float> out, int64_t n_heads, int64_t head_dim, int64_t columns) {
  kPermute(std::as_bytes(rows), std::as_writable_bytes(out), n_heads, head_dim,
           columns * static_cast<int64_t>(sizeof(float)));
}
constexpr auto to_split = permute<adjacent_to_split_halves>;
constexpr auto to_adjacent = permute<split_halves_to_adjacent>;

TEST(RopeLayout, OneHeadOfSixRows) {
  // Rows of a head that form the pairs (0, 1), (2, 3), (4, 5) move to (0, 3), (1, 4), (2, 5).
  const std::vector<float> adjacent{0, 1, 10, 11, 20, 21, 30, 31, 40, 41, 50, 51};
  std::vector<float> split(12);
  to_split(adjacent, split, 1, 6, 2);
  EXPECT_EQ(split, (std::vector<float>{0, 1, 20, 21, 40, 41, 10, 11, 30, 31, 50, 51}));
}

TEST(RopeLayout, ConvertsEachHeadSeparately) {
  const std::vector<float> adjacent{0, 1, 2, 3, 10, 11, 12, 13};
  std::vector<float> split(8);
  to_split(adjacent, split, 2, 4, 1);
  EXPECT_EQ(split, (std::vector<float>{0, 2, 1, 3, 10, 12, 11, 13}));
}

TEST(RopeLayout, ConversionsAreInverses) {
  for (const int64_t heads : {1, 2, 5}) {
    for (const int64_t head_dim : {2, 4, 6, 64}) {
      for (const int64_t columns : {1, 3, 32}) {
        std::vector<float> original(static_cast<size_t>(heads * head_dim * columns));
        std::iota(original.begin(), original.end(), 0.0F);
        std::vector<float> there(original.size());
        std::vector<float> back(original.size());
        to_split(original, there, heads, head_dim, columns);
        to_adjacent(there, back, heads, head_dim, columns);
        EXPECT_EQ(back, original);
        EXPECT_EQ(there == original, head_dim == 2);
        to_adjacent(original, there, heads, head_dim, columns);
        to_split(there, back, heads, head_dim, columns);
        EXPECT_EQ(back, original);
      }
    }
  }
}

TEST(RopeLayout, RejectsWrongSizes) {
  std::vector<float> small(8);
  std::vector<float> large(16);
  EXPECT_ERROR(to_split(small, large, 2, 4, 1), "32");
  EXPECT_ERROR(to_adjacent(large, small, 2, 4, 2), "64");
}

}  // namespace
}  // namespace folio::core
