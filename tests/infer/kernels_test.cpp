// Laws of infer/kernels: each instruction set gives the reference's bits at every length 0..2N, around the borders of
// chunks, at nine misalignments and right before memory that must not be touched; it writes its output and nothing
// else, and what lies outside its input never shows.
#include "infer/reference/kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "tests/infer/guarded_buffer.h"
#include "tests/infer/support.h"

namespace folio::infer::kernels {
namespace {

using test::Buffer;
using test::kLongLengths;
using test::kNaN;
using test::kPageEnd;
using test::random_floats;
using test::same_bits;
using test::short_lengths;

class KernelsOfIsa : public ::testing::TestWithParam<core::Isa> {
 protected:
  const Kernels& fast_ = kernels_for(GetParam());
  const Kernels& reference_ = reference_kernels();
};

INSTANTIATE_TEST_SUITE_P(Isa, KernelsOfIsa, ::testing::ValuesIn(core::supported_isas()),
                         [](const auto& info) { return std::string(core::isa_name(info.param)); });

TEST_P(KernelsOfIsa, TableNamesItself) { EXPECT_EQ(fast_.isa, GetParam()); }

TEST_P(KernelsOfIsa, RmsNormGivesTheReferencesBits) {
  auto lengths = short_lengths();
  lengths.insert(lengths.end(), kLongLengths.begin(), kLongLengths.end());
  for (const size_t n : lengths) {
    for (size_t place = 0; place <= kPageEnd; ++place) {
      Buffer x(random_floats(n, n, 3.0), place);
      Buffer weight(random_floats(n, n + 1), (place * 3 + 1) % 10);
      Buffer expected(n, kNaN, 0);
      Buffer got(n, kNaN, (place * 7 + 2) % 10);
      reference_.rms_norm(x.data(), weight.data(), 1e-5F, n, expected.data());
      fast_.rms_norm(x.data(), weight.data(), 1e-5F, n, got.data());
      ASSERT_TRUE(same_bits(got.values(), expected.values())) << "length " << n << " place " << place;
      ASSERT_TRUE(got.guards_hold()) << "length " << n << " place " << place;
    }
  }
}

struct MatmulCase {
  size_t k;
  size_t n_rows;
  size_t begin;
  size_t end;
  size_t place;
  bool accumulate;
};

// Weight rows and outputs outside of [begin, end) are NaN: neither may be read.
void check_matmul(const Kernels& fast, const MatmulCase& c) {
  const size_t stride = c.end + 3;
  auto values = random_floats(c.end * c.k, c.k * 31 + c.begin);
  std::fill_n(values.begin(), c.begin * c.k, kNaN);
  std::vector<float> initial(c.n_rows * stride, kNaN);
  if (c.accumulate) {
    const auto held = random_floats(initial.size(), 5);
    for (size_t i = 0; i < initial.size(); ++i) {
      if (i % stride >= c.begin && i % stride < c.end) initial[i] = held[i];
    }
  }
  Buffer x(random_floats(c.n_rows * c.k, c.k + 7 * c.n_rows), c.place);
  Buffer weight(values, (c.place * 3 + 1) % 10);
  Buffer expected(initial, 0);
  Buffer got(initial, (c.place * 7 + 2) % 10);
  reference_kernels().matmul(x.data(), c.n_rows, weight.data(), c.k, c.begin, c.end, expected.data(), stride,
                             c.accumulate);
  fast.matmul(x.data(), c.n_rows, weight.data(), c.k, c.begin, c.end, got.data(), stride, c.accumulate);
  const auto label = fmt::format("k {} rows {} range [{}, {}) place {} accumulate {}", c.k, c.n_rows, c.begin, c.end,
                                 c.place, c.accumulate);
  ASSERT_TRUE(same_bits(got.values(), expected.values())) << label;
  ASSERT_TRUE(got.guards_hold()) << label;
}

const std::vector<std::pair<size_t, size_t>> kRanges{{0, 16}, {0, 1}, {3, 20}, {15, 33}, {5, 5}, {16, 18}, {7, 44}};

TEST_P(KernelsOfIsa, MatmulGivesTheReferencesBitsAtShortLengths) {
  size_t turn = 0;
  for (const size_t k : short_lengths()) {
    for (size_t n_rows = 1; n_rows <= 9; ++n_rows) {
      for (size_t place = 0; place <= kPageEnd; ++place) {
        const auto [begin, end] = kRanges[turn++ % kRanges.size()];
        for (const bool accumulate : {false, true}) {
          check_matmul(fast_, {k, n_rows, begin, end, place, accumulate});
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST_P(KernelsOfIsa, MatmulGivesTheReferencesBitsAroundChunkBorders) {
  size_t place = 0;
  for (const size_t k : kLongLengths) {
    for (size_t n_rows = 1; n_rows <= 9; ++n_rows) {
      for (const auto& [begin, end] : kRanges) {
        check_matmul(fast_, {k, n_rows, begin, end, place++ % 10, n_rows % 2 == 0});
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(KernelsOfIsa, MatmulOfARowDoesNotDependOnItsCompanions) {
  constexpr size_t kRows = 9;
  constexpr size_t kOut = 21;
  for (const size_t k : {5U, 33U, 1030U}) {
    const auto x = random_floats(kRows * k, 1);
    const auto weight = random_floats(kOut * k, 2);
    std::vector<float> together(kRows * kOut);
    std::vector<float> apart(kRows * kOut);
    fast_.matmul(x.data(), kRows, weight.data(), k, 0, kOut, together.data(), kOut, false);
    for (size_t n = 0; n < kRows; ++n) {
      for (size_t r = 0; r < kOut; ++r) {
        fast_.matmul(&x[n * k], 1, weight.data(), k, r, r + 1, &apart[n * kOut], kOut, false);
      }
    }
    ASSERT_TRUE(same_bits(together, apart)) << "k " << k;
  }
}

TEST_P(KernelsOfIsa, RopeGivesTheReferencesBits) {
  std::vector<size_t> head_dims;
  for (size_t d = 0; d <= 2 * kLanes + 2; d += 2) head_dims.push_back(d);
  for (const size_t d : {46, 48, 64, 80, 130, 512}) head_dims.push_back(d);
  for (const size_t head_dim : head_dims) {
    for (size_t n_heads = 0; n_heads <= 5; ++n_heads) {
      for (size_t place = 0; place <= kPageEnd; ++place) {
        const auto x = random_floats(n_heads * head_dim, head_dim + n_heads, 4.0);
        Buffer cos(random_floats(head_dim, 1), place);
        Buffer sin(random_floats(head_dim, 2), (place * 3 + 1) % 10);
        Buffer expected(x, 0);
        Buffer got(x, (place * 7 + 2) % 10);
        reference_.rope(expected.data(), cos.data(), sin.data(), n_heads, head_dim);
        fast_.rope(got.data(), cos.data(), sin.data(), n_heads, head_dim);
        ASSERT_TRUE(same_bits(got.values(), expected.values())) << head_dim << " x " << n_heads << " at " << place;
        ASSERT_TRUE(got.guards_hold()) << head_dim << " x " << n_heads << " at " << place;
      }
    }
  }
}

TEST_P(KernelsOfIsa, SwigluGivesTheReferencesBits) {
  auto lengths = short_lengths();
  lengths.insert(lengths.end(), kLongLengths.begin(), kLongLengths.end());
  for (const size_t n : lengths) {
    for (size_t place = 0; place <= kPageEnd; ++place) {
      const auto values = random_floats(n, n, place % 2 == 0 ? 5.0 : 120.0);
      Buffer gate(values, place);
      Buffer up(random_floats(n, n + 1), (place * 3 + 1) % 10);
      Buffer expected(n, kNaN, 0);
      Buffer got(n, kNaN, (place * 7 + 2) % 10);
      reference_.swiglu(gate.data(), up.data(), n, expected.data());
      fast_.swiglu(gate.data(), up.data(), n, got.data());
      ASSERT_TRUE(same_bits(got.values(), expected.values())) << "length " << n << " place " << place;
      ASSERT_TRUE(got.guards_hold()) << "length " << n << " place " << place;
      fast_.swiglu(gate.data(), up.data(), n, gate.data());  // the engine's way: over the gate
      ASSERT_TRUE(same_bits(gate.values(), expected.values())) << "in place, length " << n << " place " << place;
      ASSERT_TRUE(gate.guards_hold()) << "in place, length " << n << " place " << place;
    }
  }
}

// With up = 1 and large gates, silu shows e^-x over its whole range, held ends included.
TEST_P(KernelsOfIsa, SwigluGivesTheReferencesBitsAtExtremes) {
  const float inf = std::numeric_limits<float>::infinity();
  std::vector<float> gate{0.0F,    -0.0F, 1e-45F, -1e-45F, 1e-30F, 87.3F, -87.3F, 88.37F,
                          -88.38F, 89.0F, -89.0F, 1e4F,    -1e4F,  3e38F, -3e38F, inf};
  for (int i = -2000; i <= 2000; ++i) gate.push_back(static_cast<float>(i) * 0.05F);
  const std::vector<float> up(gate.size(), 1.0F);
  std::vector<float> expected(gate.size());
  std::vector<float> got(gate.size());
  reference_.swiglu(gate.data(), up.data(), gate.size(), expected.data());
  fast_.swiglu(gate.data(), up.data(), gate.size(), got.data());
  EXPECT_TRUE(same_bits(got, expected));
  // Damage has to stay visible: the sampler refuses a logit that is not finite.
  std::fill(gate.begin(), gate.end(), kNaN);
  fast_.swiglu(gate.data(), up.data(), gate.size(), got.data());
  EXPECT_TRUE(std::all_of(got.begin(), got.end(), [](float x) { return std::isnan(x); }));
}

struct AttentionCase {
  size_t n_positions;
  size_t n_rows;
  size_t n_queries;
  size_t head_dim;
  size_t place;
  double scale_of_queries;
};

// As many rows as may go together, up to `most`.
size_t rows_to_the_blocks_end(size_t n_positions, size_t most) {
  return std::min(most, kBlockPositions - (n_positions - 1) % kBlockPositions);
}

// The second of two heads in the second of two layers: all the rest of each block, and every slot past the last
// position that is seen, is NaN, as dirty memory may be.
void check_attention(const Kernels& fast, const AttentionCase& c) {
  const size_t head = c.head_dim * kBlockPositions;
  const size_t key_offset = 5 * head;
  const size_t value_offset = 7 * head;
  const size_t n_written = c.n_positions + c.n_rows - 1;
  const size_t row_stride = c.n_queries * c.head_dim + c.place;
  std::vector<std::unique_ptr<Buffer>> buffers;
  std::vector<const float*> blocks;
  for (size_t first = 0; first < n_written; first += kBlockPositions) {
    std::vector<float> block(8 * head, kNaN);
    const auto keys = random_floats(head, first * 2 + c.head_dim);
    const auto values = random_floats(head, first * 2 + c.head_dim + 1);
    for (size_t j = 0; j < std::min(kBlockPositions, n_written - first); ++j) {
      for (size_t d = 0; d < c.head_dim; ++d) {
        block[key_offset + d * kBlockPositions + j] = keys[d * kBlockPositions + j];
        block[value_offset + j * c.head_dim + d] = values[j * c.head_dim + d];
      }
    }
    buffers.push_back(std::make_unique<Buffer>(block, (c.place * 3 + blocks.size()) % 10));
    blocks.push_back(buffers.back()->data());
  }
  const size_t size = (c.n_rows - 1) * row_stride + c.n_queries * c.head_dim;
  Buffer query(random_floats(size, c.n_queries + c.head_dim, c.scale_of_queries), c.place);
  // All of a row is written, and what lies between the rows stays as it is.
  std::vector<float> before(size, 7.0F);
  for (size_t r = 0; r < c.n_rows; ++r) {
    std::fill_n(before.begin() + static_cast<std::ptrdiff_t>(r * row_stride), c.n_queries * c.head_dim, kNaN);
  }
  Buffer expected(before, 0);
  Buffer got(before, (c.place * 7 + 2) % 10);
  const AttentionInput in{.query = query.data(),
                          .blocks = blocks.data(),
                          .key_offset = key_offset,
                          .value_offset = value_offset,
                          .n_positions = c.n_positions,
                          .n_rows = c.n_rows,
                          .row_stride = row_stride,
                          .n_queries = c.n_queries,
                          .head_dim = c.head_dim,
                          .scale = 1.0F / std::sqrt(static_cast<float>(c.head_dim))};
  reference_kernels().attention(in, expected.data());
  fast.attention(in, got.data());
  const auto label = fmt::format("{} positions, {} rows, {} queries of {} at {}, scale {}", c.n_positions, c.n_rows,
                                 c.n_queries, c.head_dim, c.place, c.scale_of_queries);
  ASSERT_TRUE(std::all_of(expected.values().begin(), expected.values().end(), [](float x) { return std::isfinite(x); }))
      << label;
  for (size_t i = 0; i < size; ++i) {
    ASSERT_TRUE(i % row_stride < c.n_queries * c.head_dim || expected.values()[i] == 7.0F) << label;
  }
  ASSERT_TRUE(same_bits(got.values(), expected.values())) << label;
  ASSERT_TRUE(got.guards_hold()) << label;
}

TEST_P(KernelsOfIsa, AttentionGivesTheReferencesBitsAtEveryLength) {
  size_t place = 0;
  for (const size_t head_dim : {2, 6, 10, 16, 48}) {
    for (size_t n_positions = 1; n_positions <= 100; ++n_positions) {
      for (size_t n_queries = 1; n_queries <= 5; ++n_queries) {
        const size_t n_rows = rows_to_the_blocks_end(n_positions, 1 + place % 3 * 4);
        check_attention(fast_, {n_positions, n_rows, n_queries, head_dim, place++ % 10, 3.0});
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(KernelsOfIsa, AttentionGivesTheReferencesBitsAtEveryHeadWidth) {
  std::vector<size_t> head_dims;
  for (size_t d = 2; d <= 2 * kLanes + 2; d += 2) head_dims.push_back(d);
  for (const size_t d : {46, 48, 62, 64, 66, 80, 94, 96, 112, 128, 130, 256, 510, 512}) head_dims.push_back(d);
  size_t place = 0;
  for (const size_t head_dim : head_dims) {
    for (const size_t n_positions : {1, 2, 15, 16, 17, 31, 32, 33, 64, 65, 97}) {
      const size_t n_rows = rows_to_the_blocks_end(n_positions, 1 + place % 7);
      check_attention(fast_, {n_positions, n_rows, 1 + place % 5, head_dim, place % 10, 3.0});
      ++place;
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(KernelsOfIsa, AttentionGivesTheReferencesBitsForEveryNumberOfRows) {
  size_t place = 0;
  for (const size_t n_queries : {1, 2, 3, 4, 7, 8, 9, 14}) {
    for (const size_t n_positions : {1, 9, 33, 49, 65}) {
      for (size_t n_rows = 1; n_rows <= rows_to_the_blocks_end(n_positions, 32); ++n_rows) {
        check_attention(fast_, {n_positions, n_rows, n_queries, 64, place++ % 10, 3.0});
        if (HasFatalFailure()) return;
      }
    }
  }
}

// Scores some hundreds apart: e^(s - m) is held at its lower end, and a later block often has the larger maximum.
TEST_P(KernelsOfIsa, AttentionGivesTheReferencesBitsForFarScores) {
  for (size_t n_positions = 1; n_positions <= 100; n_positions += 3) {
    for (const double scale : {0.0, 30.0, 1000.0}) {
      check_attention(fast_, {n_positions, rows_to_the_blocks_end(n_positions, 4), 4, 18, n_positions % 10, scale});
      if (HasFatalFailure()) return;
    }
  }
}

}  // namespace
}  // namespace folio::infer::kernels
