// Tests the kernels for floats, and products with F32, F16, BF16 and Q8 weights: each instruction set's results equal
// the reference's bit for bit at lengths of 0 to 2N + 1 for vectors of N lanes, and around chunk boundaries. Buffers
// begin 0 to 8 elements after a 64-byte boundary, or end at an unreadable page, so that out-of-bounds accesses are
// detected.
#include "infer/reference/kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "core/float16.h"
#include "infer/reference/reference.h"
#include "tests/infer/cpu/guarded_buffer.h"
#include "tests/infer/sanitized.h"
#include "tests/infer/support.h"

namespace folio::infer::kernels {
namespace {

using test::all_lengths;
using test::Buffer;
using test::Guarded;
using test::kLongLengths;
using test::kNaN;
using test::kPageEnd;
using test::kRanges;
using test::MatmulCase;
using test::random_floats;
using test::same_bits;
using test::short_lengths;
using test::wrote;

class IsaKernels : public ::testing::TestWithParam<core::Isa> {
 protected:
  const Kernels& fast_ = kernels_for(GetParam());
  const Kernels& reference_ = reference_kernels();
};

INSTANTIATE_TEST_SUITE_P(Isa, IsaKernels, ::testing::ValuesIn(kernels::isas_with_kernels()),
                         ::testing::PrintToStringParamName());

TEST_P(IsaKernels, TableHasItsName) { EXPECT_EQ(fast_.isa, GetParam()); }

float narrowed(float x, float /*type*/) { return x; }
F16 narrowed(float x, F16 /*type*/) { return {core::float_to_f16(x)}; }
BF16 narrowed(float x, BF16 /*type*/) { return {core::float_to_bf16(x)}; }
Q8 narrowed(float x, Q8 /*type*/) { return {static_cast<int8_t>(std::isnan(x) ? 0 : std::fmod(x * 100.0F, 127.0F))}; }

// Compares a product with the reference's product of the same weights as floats. Weight rows outside [begin, end) are
// NaN (0 in Q8) and must not be read. Outputs outside [begin, end) must not be written.
template <typename Weight>
void check_matmul(const Kernels& fast, const MatmulCase& c) {
  const size_t stride = c.end + 3;
  const auto numbers = random_floats(c.end * c.k, c.k * 31 + c.begin);
  std::vector<Weight> narrow(numbers.size());
  std::vector<float> wide(numbers.size());
  for (size_t i = 0; i < numbers.size(); ++i) {
    narrow[i] = narrowed(i < c.begin * c.k ? kNaN : numbers[i], Weight{});
    wide[i] = reference::widened(narrow[i]);
  }
  Buffer x(random_floats(c.n_rows * c.k, c.k + 7 * c.n_rows), c.place);
  Guarded<Weight> weight(std::span<const Weight>(narrow), (c.place * 3 + 1) % 10);
  std::vector<float> expected(c.n_rows * stride, 0.5F);
  const auto compare = [&](const char* name, const float* inputs, const auto& kernel) {
    Buffer got(c.n_rows * stride, 0.5F, (c.place * 7 + 2) % 10);
    kernel(inputs, c.n_rows, weight.data(), c.k, c.begin, c.end, got.data(), stride, c.accumulate);
    ASSERT_TRUE(wrote(got, expected)) << fmt::format(
        "{} in {} bytes: k {} rows {} range [{}, {}) place {} accumulate {}", name, sizeof(Weight), c.k, c.n_rows,
        c.begin, c.end, c.place, c.accumulate);
  };
  reference_kernels().matmul(x.data(), c.n_rows, wide.data(), c.k, c.begin, c.end, expected.data(), stride,
                             c.accumulate);
  compare("matmul", x.data(), fast.matmul);
  if constexpr (!std::is_same_v<Weight, F16>) compare("matmul_near", x.data(), fast.matmul_near);
  if constexpr (!std::is_same_v<Weight, Q8>) {
    if (fast.pack == nullptr) return;
    const size_t together = fast.packed_inputs;
    const size_t room = together * in_lanes(c.k);
    Buffer packed((c.n_rows + together - 1) / together * room, 0.0F, 0);
    for (size_t i = 0; i < c.n_rows; i += together) {
      fast.pack(x.data() + i * c.k, std::min(together, c.n_rows - i), c.k, packed.data() + i / together * room);
    }
    ASSERT_TRUE(packed.guards_hold());
    compare("matmul_packed", packed.data(), fast.matmul_packed);
  }
}

TEST_P(IsaKernels, MatmulGivesTheReferencesBitsAtShortLengths) {
  size_t turn = 0;
  for (const size_t k : short_lengths()) {
    for (size_t n_rows = 1; n_rows <= 9; ++n_rows) {
      for (size_t place = 0; place <= kPageEnd; ++place) {
        const auto [begin, end] = kRanges[turn++ % kRanges.size()];
        for (const bool accumulate : {false, true}) {
          check_matmul<float>(fast_, {k, n_rows, begin, end, place, accumulate});
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
        check_matmul<float>(fast_, {k, n_rows, begin, end, place++ % 10, n_rows % 2 == 0});
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
      check_matmul<float>(fast_, {k, 1, 1, 40, place++ % 10, chunks % 2 == 0});
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
        check_matmul<float>(fast_, {k, n_rows, begin, end, place++ % 10, n_rows % 2 == 0});
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(IsaKernels, MatmulGivesTheReferencesBitsForNarrowWeights) {
  size_t turn = 0;
  for (const size_t k : all_lengths()) {
    for (const size_t n_rows : {1U, 2U, 3U, 4U, 5U, 6U, 7U, 8U, 9U, 66U}) {
      if (test::kSanitized && n_rows > 9) continue;
      const auto [begin, end] = kRanges[turn % kRanges.size()];
      const MatmulCase c{k, n_rows, begin, end, turn++ % (kPageEnd + 1), n_rows % 2 == 0};
      check_matmul<F16>(fast_, c);
      check_matmul<BF16>(fast_, c);
      check_matmul<Q8>(fast_, c);
      if (HasFatalFailure()) return;
    }
  }
}

// Compares products of 1 and all finite values of a type, including subnormals and both zeros.
template <typename Weight>
void check_every_value(const Kernels& fast) {
  const float one = 1.0F;
  std::vector<Weight> narrow;
  std::vector<float> wide;
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const Weight weight{static_cast<uint16_t>(bits)};
    if (!std::isfinite(reference::widened(weight))) continue;
    narrow.push_back(weight);
    wide.push_back(reference::widened(weight));
  }
  std::vector<float> got(narrow.size());
  fast.matmul(&one, 1, narrow.data(), 1, 0, narrow.size(), got.data(), narrow.size(), false);
  // The kernels add fifteen lanes of 0 to each product, which turns -0 into 0. So compare with the float kernel.
  std::vector<float> expected(wide.size());
  reference_kernels().matmul(&one, 1, wide.data(), 1, 0, wide.size(), expected.data(), wide.size(), false);
  EXPECT_TRUE(same_bits(got, expected)) << (std::is_same_v<Weight, F16> ? "F16" : "BF16");
}

TEST_P(IsaKernels, MatmulWidensEachValueExactly) {
  check_every_value<F16>(fast_);
  check_every_value<BF16>(fast_);
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
        ASSERT_TRUE(wrote(got, expected.values())) << head_dim << " x " << n_heads << " at " << place;
      }
    }
  }
}

// Tests the kernels of two rows: a norm's input and weight, or gate and up. The engine also calls them in place.
TEST_P(IsaKernels, NormsAndGatesGiveTheReferencesBits) {
  using Run = void(const Kernels& k, const float* x, const float* y, size_t n, float* out);
  Run* const all[] = {
      [](const Kernels& k, const float* x, const float* y, size_t n, float* out) { k.rms_norm(x, y, 1e-5F, n, out); },
      [](const Kernels& k, const float* x, const float* y, size_t n, float* out) { k.swiglu(x, y, n, out); },
      [](const Kernels& k, const float* x, const float* y, size_t n, float* out) { k.geglu(x, y, n, out); },
      [](const Kernels& k, const float* x, const float* y, size_t n, float* out) { k.clamped_swiglu(x, y, n, out); }};
  for (Run* const kernel : all) {
    for (const size_t n : all_lengths()) {
      for (size_t place = 0; place <= kPageEnd; ++place) {
        Buffer x(random_floats(n, n, place % 2 == 0 ? 5.0 : 120.0), place);
        Buffer y(random_floats(n, n + 1), (place * 3 + 1) % 10);
        Buffer expected(n, kNaN, 0);
        Buffer got(n, kNaN, (place * 7 + 2) % 10);
        kernel(reference_, x.data(), y.data(), n, expected.data());
        kernel(fast_, x.data(), y.data(), n, got.data());
        ASSERT_TRUE(wrote(got, expected.values())) << "length " << n << " place " << place;
        kernel(fast_, x.data(), y.data(), n, x.data());
        ASSERT_TRUE(wrote(x, expected.values())) << "in place, length " << n << " place " << place;
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
      ASSERT_TRUE(wrote(got, expected.values())) << "length " << n << " cap " << cap;
    }
  }
}

// Compares an adapter's second product, t by matrix b, with a product: the terms must be added in the same order, but b
// has another layout.
template <typename Weight>
void check_low_rank(const Kernels& kernels, size_t n, size_t rank, size_t place) {
  const auto numbers = random_floats(n * rank, n * rank);
  std::vector<float> rows(n * rank);
  std::vector<Weight> tiles(in_lanes(n) * rank);
  for (size_t i = 0; i < n * rank; ++i) {
    Weight& b = tiles[(i / rank / kLanes * rank + i % rank) * kLanes + i / rank % kLanes];
    b = narrowed(numbers[i], Weight{});
    rows[i] = reference::widened(b);
  }
  auto expected = random_floats(n, n + rank);
  Buffer t(random_floats(rank, rank + 1), place);
  Guarded<Weight> b(std::span<const Weight>(tiles), place);
  Buffer out(expected, (place * 3 + 1) % 10);
  reference_kernels().matmul(t.data(), 1, rows.data(), rank, 0, n, expected.data(), n, true);
  kernels.add_low_rank(t.data(), rank, b.data(), n, out.data());
  ASSERT_TRUE(wrote(out, expected)) << n << " outputs, rank " << rank << ", place " << place << ", " << sizeof(Weight);
}

TEST_P(IsaKernels, AddLowRankGivesTheBitsOfAProduct) {
  for (const size_t n : {1, 3, 15, 16, 17, 40, 100}) {
    for (const size_t rank : {1, 2, 7, 8, 9, 16, 17, 37, 256, 1030}) {
      for (size_t place = 0; place <= kPageEnd; ++place) {
        check_low_rank<float>(fast_, n, rank, place);
        check_low_rank<BF16>(fast_, n, rank, place);
        check_low_rank<Q8>(fast_, n, rank, place);
        if (HasFatalFailure()) return;
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
