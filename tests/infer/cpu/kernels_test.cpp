// Tests the kernels for F32 weights: each instruction set's results equal the reference's bit for bit at lengths of 0
// to 2N + 1 for vectors of N lanes, and around chunk boundaries. Buffers begin 0 to 8 elements after a 64-byte
// boundary, or end at an unreadable page, so that out-of-bounds accesses are detected.
#include "infer/reference/kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "core/float16.h"
#include "tests/infer/cpu/guarded_buffer.h"
#include "tests/infer/sanitized.h"
#include "tests/infer/support.h"

namespace folio::infer::kernels {
namespace {

using test::all_lengths;
using test::Buffer;
using test::kLongLengths;
using test::kNaN;
using test::kPageEnd;
using test::kRanges;
using test::MatmulCase;
using test::random_floats;
using test::same_bits;
using test::short_lengths;

class IsaKernels : public ::testing::TestWithParam<core::Isa> {
 protected:
  const Kernels& fast_ = kernels_for(GetParam());
  const Kernels& reference_ = reference_kernels();
};

INSTANTIATE_TEST_SUITE_P(Isa, IsaKernels, ::testing::ValuesIn(kernels::isas_with_kernels()),
                         ::testing::PrintToStringParamName());

TEST_P(IsaKernels, TableHasItsName) { EXPECT_EQ(fast_.isa, GetParam()); }

TEST_P(IsaKernels, RmsNormGivesTheReferencesBits) {
  for (const size_t n : all_lengths()) {
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

// Compares a product with the reference. Weight rows outside [begin, end) are NaN and must not be read. Outputs outside
// [begin, end) must not be written.
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
  if (fast.pack != nullptr) {
    const size_t together = fast.packed_inputs;
    const size_t room = together * in_lanes(c.k);
    Buffer packed(std::vector<float>((c.n_rows + together - 1) / together * room), 0);
    for (size_t i = 0; i < c.n_rows; i += together) {
      fast.pack(x.data() + i * c.k, std::min(together, c.n_rows - i), c.k, packed.data() + i / together * room);
    }
    ASSERT_TRUE(packed.guards_hold()) << "packed, " << label;
    Buffer out(initial, (c.place * 7 + 2) % 10);
    fast.matmul_packed(packed.data(), c.n_rows, weight.data(), c.k, c.begin, c.end, out.data(), stride, c.accumulate);
    ASSERT_TRUE(same_bits(out.values(), expected.values())) << "packed, " << label;
    ASSERT_TRUE(out.guards_hold()) << "packed, " << label;
  }
  Buffer near(initial, (c.place * 7 + 2) % 10);
  fast.matmul_near(x.data(), c.n_rows, weight.data(), c.k, c.begin, c.end, near.data(), stride, c.accumulate);
  ASSERT_TRUE(same_bits(near.values(), expected.values())) << "near, " << label;
  ASSERT_TRUE(near.guards_hold()) << "near, " << label;
}

TEST_P(IsaKernels, MatmulGivesTheReferencesBitsAtShortLengths) {
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

TEST_P(IsaKernels, MatmulGivesTheReferencesBitsAroundChunkBorders) {
  size_t place = 0;
  for (const size_t k : kLongLengths) {
    for (size_t n_rows = 1; n_rows <= 9; ++n_rows) {
      for (const auto& [begin, end] : kRanges) {
        if (test::kSanitized && begin % 2 != n_rows % 2) continue;
        check_matmul(fast_, {k, n_rows, begin, end, place++ % 10, n_rows % 2 == 0});
        if (HasFatalFailure()) return;
      }
    }
  }
}

// With one input, the kernels reduce the sums of up to sixteen chunks together: the chunks of several short weight
// rows, or sixteen chunks of a long row. This must not change any bit of the result.
TEST_P(IsaKernels, MatmulOfOneInputGivesTheReferencesBitsForAnyNumberOfChunks) {
  size_t place = 0;
  for (const size_t chunks : {2U, 3U, 5U, 7U, 8U, 9U, 15U, 16U, 17U, 33U}) {
    for (const size_t k : {chunks * kChunk, chunks * kChunk - 37}) {
      check_matmul(fast_, {k, 1, 1, 40, place++ % 10, chunks % 2 == 0});
      if (HasFatalFailure()) return;
    }
  }
}

// For many input rows, other kernels copy weights to panels (matmul_panels.h), and on AVX-512 also pack inputs
// (matmul_packed.h). They must give the same bits.
TEST_P(IsaKernels, MatmulOfManyInputsGivesTheReferencesBits) {
  size_t place = 0;
  for (const size_t k : {0U, 1U, 15U, 16U, 33U, 1024U, 1030U, 2100U}) {
    for (const size_t n_rows : {63U, 64U, 65U, 71U}) {
      for (const auto& [begin, end] : kRanges) {
        check_matmul(fast_, {k, n_rows, begin, end, place++ % 10, n_rows % 2 == 0});
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(IsaKernels, RopeGivesTheReferencesBits) {
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
        const auto pairs = place % 2 == 0 ? core::RopePairs::Adjacent : core::RopePairs::Halves;
        reference_.rope(expected.data(), cos.data(), sin.data(), n_heads, head_dim, pairs);
        fast_.rope(got.data(), cos.data(), sin.data(), n_heads, head_dim, pairs);
        ASSERT_TRUE(same_bits(got.values(), expected.values())) << head_dim << " x " << n_heads << " at " << place;
        ASSERT_TRUE(got.guards_hold()) << head_dim << " x " << n_heads << " at " << place;
      }
    }
  }
}

TEST_P(IsaKernels, GatesGiveTheReferencesBits) {
  for (const auto gated : {&Kernels::swiglu, &Kernels::geglu, &Kernels::clamped_swiglu}) {
    for (const size_t n : all_lengths()) {
      for (size_t place = 0; place <= kPageEnd; ++place) {
        const auto values = random_floats(n, n, place % 2 == 0 ? 5.0 : 120.0);
        Buffer gate(values, place);
        Buffer up(random_floats(n, n + 1), (place * 3 + 1) % 10);
        Buffer expected(n, kNaN, 0);
        Buffer got(n, kNaN, (place * 7 + 2) % 10);
        (reference_.*gated)(gate.data(), up.data(), n, expected.data());
        (fast_.*gated)(gate.data(), up.data(), n, got.data());
        ASSERT_TRUE(same_bits(got.values(), expected.values())) << "length " << n << " place " << place;
        ASSERT_TRUE(got.guards_hold()) << "length " << n << " place " << place;
        (fast_.*gated)(gate.data(), up.data(), n, gate.data());  // in place, as the engine calls it
        ASSERT_TRUE(same_bits(gate.values(), expected.values())) << "in place, length " << n << " place " << place;
        ASSERT_TRUE(gate.guards_hold()) << "in place, length " << n << " place " << place;
      }
    }
  }
}

TEST_P(IsaKernels, SoftCapGivesTheReferencesBits) {
  for (const size_t n : short_lengths()) {
    for (const float cap : {0.5F, 30.0F}) {
      Buffer expected(random_floats(n, n, 60.0), 0);
      Buffer got(random_floats(n, n, 60.0), n % 10);
      reference_.soft_cap(expected.data(), n, cap);
      fast_.soft_cap(got.data(), n, cap);
      ASSERT_TRUE(same_bits(got.values(), expected.values())) << "length " << n << " cap " << cap;
      ASSERT_TRUE(got.guards_hold()) << "length " << n << " cap " << cap;
    }
  }
}

// An adapter's second product (t by matrix b) must add terms in the same order as matmul, but its b has another layout.
TEST_P(IsaKernels, AddLowRankGivesTheBitsOfAProduct) {
  for (const size_t n : {1, 3, 15, 16, 17, 40, 100}) {
    for (const size_t rank : {1, 2, 7, 8, 9, 16, 17, 37, 256, 1030}) {
      const auto numbers = random_floats(n * rank, n * rank);
      std::vector<float> rows;  // (n, rank), exact in BF16
      std::vector<float> panels((n + 15) / 16 * 16 * rank);
      std::vector<BF16> halves(panels.size());
      for (size_t i = 0; i < n * rank; ++i) {
        const BF16 half{core::float_to_bf16(numbers[i])};
        rows.push_back(core::bf16_to_float(half.bits));
        const size_t at = (i / rank / 16 * rank + i % rank) * 16 + i / rank % 16;
        panels[at] = rows.back();
        halves[at] = half;
      }
      const auto before = random_floats(n, n + rank);
      for (size_t place = 0; place <= kPageEnd; ++place) {
        Buffer t(random_floats(rank, rank + 1), place);
        Buffer b(panels, place);
        Buffer out(before, (place * 3 + 1) % 10);
        std::vector<float> expected = before;
        reference_.matmul(t.data(), 1, rows.data(), rank, 0, n, expected.data(), n, true);
        fast_.add_low_rank(t.data(), rank, b.data(), n, out.data());
        ASSERT_TRUE(same_bits(out.values(), expected)) << n << " outputs, rank " << rank << ", place " << place;
        ASSERT_TRUE(out.guards_hold() && t.guards_hold() && b.guards_hold());
        for (const Kernels* kernels : {&reference_, &fast_}) {
          std::vector<float> wide = before;
          kernels->add_low_rank(t.data(), rank, panels.data(), n, wide.data());
          ASSERT_TRUE(same_bits(wide, expected)) << n << " outputs, rank " << rank;
          std::vector<float> half = before;
          kernels->add_low_rank(t.data(), rank, halves.data(), n, half.data());
          ASSERT_TRUE(same_bits(half, expected)) << n << " outputs, rank " << rank << ", BF16";
        }
        std::vector<Q8> quants(panels.size());
        std::vector<float> widened(panels.size());
        for (size_t i = 0; i < quants.size(); ++i) {
          quants[i] = {static_cast<int8_t>(static_cast<int>(i * 37 % 255) - 127)};
          widened[i] = quants[i].quant;
        }
        std::vector<float> in_floats = before;
        reference_.add_low_rank(t.data(), rank, widened.data(), n, in_floats.data());
        for (const Kernels* kernels : {&reference_, &fast_}) {
          std::vector<float> in_quants = before;
          kernels->add_low_rank(t.data(), rank, quants.data(), n, in_quants.data());
          ASSERT_TRUE(same_bits(in_quants, in_floats)) << n << " outputs, rank " << rank << ", Q8";
        }
      }
    }
  }
}

// With up = 1 and gates of any size, the kernels compute e^-x over its whole range, including where it is clamped.
TEST_P(IsaKernels, GatesGiveTheReferencesBitsAtExtremes) {
  const float inf = std::numeric_limits<float>::infinity();
  std::vector<float> gate{0.0F,    -0.0F, 1e-45F, -1e-45F, 1e-30F, 87.3F, -87.3F, 88.37F,
                          -88.38F, 89.0F, -89.0F, 1e4F,    -1e4F,  3e38F, -3e38F, inf};
  for (int i = -2000; i <= 2000; ++i) gate.push_back(static_cast<float>(i) * 0.05F);
  const std::vector<float> up(gate.size(), 1.0F);
  std::vector<float> expected(gate.size());
  std::vector<float> got(gate.size());
  for (const auto gated : {&Kernels::swiglu, &Kernels::geglu, &Kernels::clamped_swiglu}) {
    (reference_.*gated)(gate.data(), up.data(), gate.size(), expected.data());
    (fast_.*gated)(gate.data(), up.data(), gate.size(), got.data());
    EXPECT_TRUE(same_bits(got, expected));
  }
  // NaNs must propagate: the sampler rejects logits that are not finite.
  std::fill(gate.begin(), gate.end(), kNaN);
  for (const auto gated : {&Kernels::swiglu, &Kernels::geglu, &Kernels::clamped_swiglu}) {
    (fast_.*gated)(gate.data(), up.data(), gate.size(), got.data());
    EXPECT_TRUE(std::all_of(got.begin(), got.end(), [](float x) { return std::isnan(x); }));
    (fast_.*gated)(up.data(), gate.data(), gate.size(), got.data());
    EXPECT_TRUE(std::all_of(got.begin(), got.end(), [](float x) { return std::isnan(x); }));
  }
}

}  // namespace
}  // namespace folio::infer::kernels
