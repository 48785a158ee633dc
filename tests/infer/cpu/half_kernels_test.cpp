// Tests the kernels for F16, BF16 and Q8_0 weights: a product equals the reference's product of the same weights as
// floats, bit for bit, and reads only the requested rows. Floats are rounded to 16 bits as in core/float16.h.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <type_traits>

#include "core/float16.h"
#include "infer/reference/kernels.h"
#include "tests/infer/cpu/guarded_buffer.h"
#include "tests/infer/sanitized.h"
#include "tests/infer/support.h"

namespace folio::infer::kernels {
namespace {

using test::all_lengths;
using test::Buffer;
using test::Guarded;
using test::kNaN;
using test::kPageEnd;
using test::kRanges;
using test::MatmulCase;
using test::random_floats;
using test::same_bits;
using test::short_lengths;

F16 narrowed(float x, F16 /*type*/) { return {core::float_to_f16(x)}; }
BF16 narrowed(float x, BF16 /*type*/) { return {core::float_to_bf16(x)}; }
Q8 narrowed(float x, Q8 /*type*/) { return {static_cast<int8_t>(std::isnan(x) ? 0 : std::fmod(x * 100.0F, 127.0F))}; }
float widened(F16 w) { return core::f16_to_float(w.bits); }
float widened(BF16 w) { return core::bf16_to_float(w.bits); }
float widened(Q8 w) { return w.quant; }
auto kernel_near(const Kernels& kernels, F16 /*type*/) { return kernels.matmul; }  // there is no matmul_near for F16
template <typename Weight>
auto kernel_near(const Kernels& kernels, Weight /*type*/) {
  return kernels.matmul_near;
}

// Compares a kernel with the reference. Weight rows outside [begin, end) are NaN, to detect that a kernel reads them.
template <typename Weight>
void check(const Kernels& fast, const MatmulCase& c) {
  const auto numbers = random_floats(c.end * c.k, c.k * 31 + c.begin);
  std::vector<Weight> narrow(numbers.size());
  std::vector<float> wide(numbers.size());
  for (size_t i = 0; i < numbers.size(); ++i) {
    narrow[i] = narrowed(i < c.begin * c.k ? kNaN : numbers[i], Weight{});
    wide[i] = widened(narrow[i]);
  }
  const size_t stride = c.end + 3;
  const std::vector<float> initial(c.n_rows * stride, 0.5F);
  const auto x = random_floats(c.n_rows * c.k, c.k + 7 * c.n_rows);
  Guarded<Weight> weight(std::span<const Weight>(narrow), c.place);
  Buffer got(initial, (c.place * 7 + 2) % 10);
  std::vector<float> expected = initial;
  reference_kernels().matmul(x.data(), c.n_rows, wide.data(), c.k, c.begin, c.end, expected.data(), stride,
                             c.accumulate);
  fast.matmul(x.data(), c.n_rows, weight.data(), c.k, c.begin, c.end, got.data(), stride, c.accumulate);
  const std::string what = fmt::format("k {} rows {} range [{}, {}) place {}", c.k, c.n_rows, c.begin, c.end, c.place);
  ASSERT_TRUE(same_bits(got.values(), expected)) << what;
  ASSERT_TRUE(got.guards_hold());
  std::vector<float> near = initial;
  kernel_near(fast, Weight{})(x.data(), c.n_rows, weight.data(), c.k, c.begin, c.end, near.data(), stride,
                              c.accumulate);
  ASSERT_TRUE(same_bits(near, expected)) << what;
}

class HalfKernels : public ::testing::TestWithParam<core::Isa> {
 protected:
  const Kernels& fast_ = kernels_for(GetParam());
};

INSTANTIATE_TEST_SUITE_P(Isa, HalfKernels, ::testing::ValuesIn(kernels::isas_with_kernels()),
                         ::testing::PrintToStringParamName());

TEST_P(HalfKernels, GiveTheFloatKernelsBitsOnTheWidenedWeights) {
  size_t turn = 0;
  for (const size_t k : all_lengths()) {
    for (const size_t n_rows : {1U, 2U, 3U, 4U, 5U, 6U, 7U, 8U, 9U, 66U}) {
      if (test::kSanitized && n_rows > 9) continue;
      const auto [begin, end] = kRanges[turn % kRanges.size()];
      const MatmulCase c{k, n_rows, begin, end, turn++ % (kPageEnd + 1), n_rows % 2 == 0};
      check<F16>(fast_, c);
      check<BF16>(fast_, c);
      check<Q8>(fast_, c);
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
    if (!std::isfinite(widened(weight))) continue;
    narrow.push_back(weight);
    wide.push_back(widened(weight));
  }
  std::vector<float> got(narrow.size());
  fast.matmul(&one, 1, narrow.data(), 1, 0, narrow.size(), got.data(), narrow.size(), false);
  // The kernels add fifteen lanes of 0 to each product, which turns -0 into 0. So compare with the float kernel.
  std::vector<float> expected(wide.size());
  reference_kernels().matmul(&one, 1, wide.data(), 1, 0, wide.size(), expected.data(), wide.size(), false);
  EXPECT_TRUE(same_bits(got, expected)) << (std::is_same_v<Weight, F16> ? "F16" : "BF16");
}

TEST_P(HalfKernels, WidenEachValueExactly) {
  check_every_value<F16>(fast_);
  check_every_value<BF16>(fast_);
}

// Returns the floats at which rounding to F16 changes: each F16 value, the midpoints between neighbors, the floats
// next to these, and floats beyond F16's range. Rounding is monotone, so if these round correctly, all floats do.
std::vector<float> borders_of_f16() {
  std::vector<float> x{65519.996F,
                       65520.0F,
                       65536.0F,
                       std::numeric_limits<float>::max(),
                       std::numeric_limits<float>::denorm_min(),
                       std::numeric_limits<float>::infinity()};
  const auto add_with_neighbours = [&](float v) {
    x.insert(x.end(), {std::nextafter(v, -1.0F), v, std::nextafter(v, 1e30F)});
  };
  for (uint16_t bits = 0; bits < 0x7C00; ++bits) {
    const float number = core::f16_to_float(bits);
    const float next = bits == 0x7BFF ? 65536.0F : core::f16_to_float(bits + 1);
    add_with_neighbours(number);
    add_with_neighbours(number + (next - number) / 2);  // exact: needs a 12-bit mantissa
  }
  const size_t positive = x.size();
  for (size_t i = 0; i < positive; ++i) x.push_back(-x[i]);
  return x;
}

TEST_P(HalfKernels, RoundToTheNearest16BitValue) {
  const auto x = borders_of_f16();
  std::vector<F16> got(x.size());
  fast_.to_f16(x.data(), x.size(), got.data());
  for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(got[i].bits, core::float_to_f16(x[i])) << x[i];
}

// Tests NaNs with each pattern of the mantissa's upper ten bits, which F16 keeps, and none, one or all of its lower 13
// bits set.
TEST_P(HalfKernels, KeepNaNsAndMakeThemQuiet) {
  for (uint32_t upper = 0; upper < 0x400; ++upper) {
    for (const uint32_t lower : {0U, 1U, 0x1FFFU}) {
      if (upper == 0 && lower == 0) continue;  // infinity
      for (const uint32_t sign : {0U, 1U}) {
        const auto x = std::bit_cast<float>(sign << 31U | 0x7F800000U | upper << 13U | lower);
        F16 got{};
        fast_.to_f16(&x, 1, &got);
        ASSERT_EQ(got.bits, sign << 15U | 0x7E00U | upper) << upper << " " << lower;
      }
    }
  }
}

TEST_P(HalfKernels, RoundAnyLengthWithoutOverrun) {
  for (const size_t n : short_lengths()) {
    for (size_t place = 0; place <= kPageEnd; ++place) {
      Buffer x(random_floats(n, n, 3.0), place);
      Guarded<F16> got(n, F16{0xFFFF}, (place * 7 + 2) % 10);
      fast_.to_f16(x.data(), n, got.data());
      for (size_t i = 0; i < n; ++i) ASSERT_EQ(got.values()[i].bits, core::float_to_f16(x.values()[i])) << n;
      ASSERT_TRUE(got.guards_hold()) << "length " << n << " place " << place;
    }
  }
}

}  // namespace
}  // namespace folio::infer::kernels
