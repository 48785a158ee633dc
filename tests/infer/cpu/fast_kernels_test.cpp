// Laws of --fast. Inputs are rounded and stand in tiles as kernels.h says. A product is that of the rounded numbers
// within the roundings of its sum, whatever their order, and reads no row that it isn't asked for. A model's logits are
// near those without, and fewer than sixteen rows keep theirs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/float16.h"
#include "infer/cpu/cpu.h"
#include "infer/forward/runner.h"
#include "infer/reference/kernels.h"
#include "tests/infer/cpu/guarded_buffer.h"
#include "tests/infer/cpu/kernel_sets.h"
#include "tests/infer/support.h"

namespace folio::infer::kernels {
namespace {

using test::Buffer;
using test::Guarded;
using test::kNaN;
using test::kRanges;
using test::random_floats;

std::vector<test::KernelSet> sets_with_fast_products() {
  std::vector<test::KernelSet> sets = test::kernel_sets();
  std::erase_if(sets, [](const test::KernelSet& set) { return set.kernels->matmul_fast == nullptr; });
  return sets;
}

class FastKernels : public ::testing::TestWithParam<test::KernelSet> {
 protected:
  const Kernels& fast_ = *GetParam().kernels;
};

INSTANTIATE_TEST_SUITE_P(Isa, FastKernels, ::testing::ValuesIn(sets_with_fast_products()),
                         [](const auto& info) { return info.param.name; });

// (n, k) in tiles.
std::vector<BF16> tiles_of(const Kernels& kernels, std::span<const float> x, size_t n, size_t k) {
  std::vector<BF16> tiles((n + kFastInputs - 1) / kFastInputs * kFastInputs * k);
  for (size_t i = 0; i < n; i += kFastInputs) {
    kernels.to_fast(x.data() + i * k, std::min(kFastInputs, n - i), k, &tiles[i * k]);
  }
  return tiles;
}

TEST_P(FastKernels, InputsAreRoundedAndStandInTiles) {
  for (const size_t k : {32U, 96U, 576U}) {
    for (const size_t n : {1U, 5U, 16U}) {
      auto x = random_floats(n * k, n + k);
      x[k / 2] = 1.0F + 0x1p-8F;  // ties go to the even one
      x[k - 1] = 1.0F + 0x3p-8F;
      const auto tile = tiles_of(fast_, x, n, k);
      for (size_t t = 0; t < kFastInputs; ++t) {
        for (size_t i = 0; i < k; ++i) {
          const uint16_t expected = t < n ? core::float_to_bf16(x[t * k + i]) : uint16_t{0};
          ASSERT_EQ(tile[(i / 2 * kFastInputs + t) * 2 + i % 2].bits, expected) << k << ' ' << t << ' ' << i;
        }
      }
    }
  }
}

// Each product of a sum meets at most k roundings of 2^-24; a processor may round twice where the formula rounds once.
TEST_P(FastKernels, AProductIsThatOfTheRoundedNumbersWithinItsRoundings) {
  size_t turn = 0;
  for (const size_t k : {32U, 160U, 1056U}) {
    for (const size_t n : {1U, 16U, 17U, 40U}) {
      const auto [begin, end] = kRanges[turn++ % kRanges.size()];
      const bool accumulate = turn % 2 == 0;
      const auto x = random_floats(n * k, k + n);
      const auto numbers = random_floats(end * k, 3 * k + n);
      std::vector<BF16> narrow(numbers.size());
      for (size_t i = 0; i < numbers.size(); ++i) {
        narrow[i] = {core::float_to_bf16(i < begin * k ? kNaN : numbers[i])};  // these must not be read
      }
      Guarded<BF16> weight(std::span<const BF16>(narrow), test::kPageEnd);
      const size_t stride = end + 3;
      const std::vector<float> initial(n * stride, 0.5F);
      Buffer got(initial, 2);
      const auto tiles = tiles_of(reference_kernels(), x, n, k);
      fast_.matmul_fast(tiles.data(), n, weight.data(), k, begin, end, got.data(), stride, accumulate);
      for (size_t t = 0; t < n; ++t) {
        for (size_t r = 0; r < stride; ++r) {
          double exact = r < begin || r >= end || accumulate ? 0.5 : 0.0;
          double absolute = exact;
          for (size_t i = 0; r >= begin && r < end && i < k; ++i) {
            const double product = static_cast<double>(core::bf16_to_float(core::float_to_bf16(x[t * k + i]))) *
                                   static_cast<double>(core::bf16_to_float(narrow[r * k + i].bits));
            exact += product;
            absolute += std::abs(product);
          }
          const bool outside = r < begin || r >= end;
          const double bound = outside ? 0.0 : 2.0 * static_cast<double>(k + 1) * 0x1p-24 * absolute;
          ASSERT_NEAR(static_cast<double>(got.values()[t * stride + r]), exact, bound) << k << ' ' << n << ' ' << r;
        }
      }
      ASSERT_TRUE(got.guards_hold());
    }
  }
}

std::vector<float> logits_of(const core::StoredModel& model, std::span<const int32_t> text, bool fast) {
  Cpu cpu({.n_threads = 2, .kernels = &reference_kernels(), .fast = fast});
  Runner runner(model, cpu, {.type = CacheType::F32});
  return test::run(runner, test::rows_of(runner.cache().add_sequence(), text));
}

// A number in BF16 is rounded by at most 2^-9 of it; here some ten roundings follow each other.
TEST(FastMachine, LogitsAreThoseOfRoundedInputs) {
  for (const core::DType type : {core::DType::F16, core::DType::BF16}) {
    test::Shape shape = test::typed_shapes()[2];  // whose widths are multiples of 32
    shape.type = type;
    const core::StoredModel model = test::random_model_of(shape);
    const auto text = test::random_tokens(40, 1, model.config.vocab_size);
    const auto exact = logits_of(model, text, false);
    const auto fast = logits_of(model, text, true);
    double difference = 0.0;
    double size = 0.0;
    for (size_t i = 0; i < exact.size(); ++i) {
      difference += std::pow(static_cast<double>(fast[i] - exact[i]), 2);
      size += std::pow(static_cast<double>(exact[i]), 2);
    }
    EXPECT_GT(difference, 0.0);
    EXPECT_LT(std::sqrt(difference / size), 10 * 0x1p-9) << core::info(type).name;
    if (type == core::DType::BF16) {
      const auto few = std::span(text).first(15);
      EXPECT_TRUE(test::same_bits(logits_of(model, few, true), logits_of(model, few, false)));
    }
  }
}

}  // namespace
}  // namespace folio::infer::kernels
