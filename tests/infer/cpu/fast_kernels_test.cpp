// Tests the kernels of --fast, whose inputs and weights are BF16. Inputs are rounded and matrices packed as kernels.h
// defines. Outputs equal the reference's bit for bit (except on AMX), and logits depend only on their own sequence.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "core/float16.h"
#include "core/memory_nodes.h"
#include "infer/cpu/cpu.h"
#include "infer/forward/runner.h"
#include "infer/ranks/local.h"
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
                         ::testing::PrintToStringParamName());

std::vector<BF16> rounded(const Kernels& kernels, std::span<const float> x, size_t n, size_t k) {
  std::vector<BF16> rows(n * panel_columns(k));
  for (size_t t = 0; t < n; ++t) kernels.to_fast(x.data() + t * k, k, &rows[t * panel_columns(k)]);
  return rows;
}

TEST_P(FastKernels, RoundsInputsLikeTheReference) {
  for (const size_t k : {1U, 15U, 16U, 17U, 32U, 96U, 577U}) {
    auto x = random_floats(k, k);
    x[k / 2] = 1.0F + 0x1p-8F;  // a tie, which is rounded to the even neighbor
    x[k - 1] = 1.0F + 0x3p-8F;
    if (k > 4) x[0] = 0x1p-130F, x[1] = -0x1p-130F, x[3] = std::numeric_limits<float>::infinity();
    const auto expected = rounded(reference_kernels(), x, 1, k);
    const auto got = rounded(fast_, x, 1, k);
    for (size_t i = 0; i < panel_columns(k); ++i) ASSERT_EQ(got[i].bits, expected[i].bits) << k << ' ' << i;
    EXPECT_EQ(expected[k - 1].bits, core::float_to_bf16(1.0F + 0x1p-6F));
  }
}

// Returns random values of many magnitudes, including denormals and zeros.
std::vector<BF16> random_bf16(size_t n, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<BF16> numbers(n);
  for (BF16& x : numbers) {
    const auto drawn = static_cast<uint16_t>(random());
    const auto exponent = static_cast<uint16_t>(random() % 8 == 0 ? random() % 4 * 20 : 120 + random() % 12);
    x = {static_cast<uint16_t>((drawn & 0x807FU) | exponent << 7U)};
  }
  return numbers;
}

// Returns the rows of `weight` (n_out, k) as PanelMatrix::panels.
std::vector<BF16> panels_of(std::span<const BF16> weight, size_t n_out, size_t k) {
  std::vector<BF16> panels(in_lanes(n_out) * panel_columns(k), {0});
  for (size_t i = 0; i < weight.size(); ++i) panels[in_panels(k, i / k, i % k)] = weight[i];
  return panels;
}

// Computes one output in AMX's order of sums (kernels.h): in each group of 32 columns, the even columns and the odd
// columns are summed separately.
float by_tiles(const BF16* x, std::span<const BF16> panels, size_t k, size_t row) {
  const auto flushed = [](float v) { return std::fpclassify(v) == FP_SUBNORMAL ? std::copysign(0.0F, v) : v; };
  const auto number = [&](BF16 v) { return flushed(core::bf16_to_float(v.bits)); };
  float total = 0.0F;
  for (size_t c = 0; c < panel_columns(k); c += 32) {
    float sums[2] = {0.0F, 0.0F};
    for (size_t i = c; i < c + 32; ++i) {
      sums[i % 2] = flushed(std::fma(number(x[i]), number(panels[in_panels(k, row, i)]), sums[i % 2]));
    }
    total = flushed(total + flushed(sums[0] + sums[1]));
  }
  return total;
}

// AMX adds in another order than the reference. Results of emulated AMX are compared with by_tiles(). On AMX hardware,
// each row of a batch must give the same bits as alone.
TEST_P(FastKernels, MatmulGivesTheReferencesBits) {
  const bool emulated = GetParam().name == "emulated_amx";
  size_t turn = 0;
  for (const size_t k : {1U, 31U, 32U, 160U, 1057U}) {
    for (const size_t n : {1U, 2U, 3U, 5U, 9U, 12U, 13U, 16U, 17U, 40U}) {
      const size_t n_out = 1 + turn * 37 % 150;
      const size_t begin = turn % 3 == 0 ? 0 : n_out / 2 / kLanes * kLanes;
      const bool accumulate = turn++ % 2 == 0;
      Guarded<BF16> panels(panels_of(random_bf16(n_out * k, k + n), n_out, k), test::kPageEnd);
      Guarded<BF16> x(random_bf16(n * panel_columns(k), k * n), test::kPageEnd);
      const size_t stride = n_out + 3;
      const std::vector<float> initial(n * stride, 0.5F);
      Buffer got(initial, 2);
      Buffer expected(initial, 2);
      fast_.matmul_fast(x.data(), n, {panels.data()}, k, begin, n_out, got.data(), stride, accumulate);
      const bool alone = fast_.isa == core::Isa::Amx;
      const auto matmul = alone ? fast_.matmul_fast : reference_kernels().matmul_fast;
      const size_t n_together = alone ? 1 : n;
      for (size_t t = 0; t < n; t += n_together) {
        matmul(x.data() + t * panel_columns(k), n_together, {panels.data()}, k, begin, n_out,
               expected.data() + t * stride, stride, accumulate);
        for (size_t r = begin; emulated && r < n_out; ++r) {
          const float sum = by_tiles(x.data() + t * panel_columns(k), panels.values(), k, r);
          expected.data()[t * stride + r] = sum + (accumulate ? 0.5F : 0.0F);
        }
      }
      ASSERT_TRUE(test::wrote(got, expected.values())) << k << ' ' << n << ' ' << n_out << ' ' << begin;
    }
  }
}

// Each term of a sum is rounded at most k + 1 times, with a relative error of at most 2^-24 each time. The bound is
// twice that, because some processors round twice as often.
TEST_P(FastKernels, MatmulIsWithinItsRoundingErrors) {
  for (const size_t k : {32U, 160U, 1057U}) {
    constexpr size_t kRows = 20;
    constexpr size_t kOut = 40;
    constexpr size_t kBegin = 16;
    const auto x = random_floats(kRows * k, k);
    const auto numbers = random_floats(kOut * k, 3 * k);
    std::vector<BF16> narrow(numbers.size());
    for (size_t i = 0; i < numbers.size(); ++i) narrow[i] = {core::float_to_bf16(numbers[i])};
    std::vector<float> got(kRows * kOut, 0.5F);
    fast_.matmul_fast(rounded(fast_, x, kRows, k).data(), kRows, {panels_of(narrow, kOut, k).data()}, k, kBegin, kOut,
                      got.data(), kOut, true);
    for (size_t t = 0; t < kRows; ++t) {
      for (size_t r = kBegin; r < kOut; ++r) {
        double exact = 0.5;
        double absolute = 0.5;
        for (size_t i = 0; i < k; ++i) {
          const double product = static_cast<double>(core::bf16_to_float(core::float_to_bf16(x[t * k + i]))) *
                                 static_cast<double>(core::bf16_to_float(narrow[r * k + i].bits));
          exact += product;
          absolute += std::abs(product);
        }
        ASSERT_NEAR(static_cast<double>(got[t * kOut + r]), exact,
                    2.0 * static_cast<double>(k + 1) * 0x1p-24 * absolute);
      }
    }
  }
}

std::vector<float> logits_of(const core::StoredModel& model, std::span<const int32_t> text, bool fast) {
  Cpu cpu({.n_threads = 2, .kernels = &reference_kernels(), .fast = fast});
  Runner runner(model, cpu, {.type = CacheType::F32});
  return test::run(runner, test::rows_of(runner.cache().add_sequence(), text));
}

// Rounding to BF16 has a relative error of at most 2^-9. The logits' relative difference (root mean square) may be ten
// times that.
TEST(FastMachine, LogitsMatchRoundedInputs) {
  for (const core::DType type : {core::DType::F16, core::DType::BF16}) {
    test::Shape shape = test::typed_shapes()[2];  // its widths are multiples of 32
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
  }
}

// Returns the logits of the last tokens of two sequences. Each step computes at most `most` rows of each sequence.
std::vector<float> last_logits(const core::StoredModel& model, Machine& machine, size_t most, CacheType cache) {
  Runner runner(model, machine, {.type = cache});
  const SequenceId ids[2] = {runner.cache().add_sequence(), runner.cache().add_sequence()};
  const auto first = test::random_tokens(37, 1, model.config.vocab_size);
  const auto second = test::random_tokens(19, 2, model.config.vocab_size);
  std::vector<float> last;
  for (size_t at = 0; at < first.size(); at += most) {
    std::vector<Row> rows;
    for (const auto& [id, text] : {std::pair(ids[0], std::span(first)), std::pair(ids[1], std::span(second))}) {
      for (size_t i = at; i < std::min(text.size(), at + most); ++i) {
        rows.push_back({.token = text[i],
                        .sequence = id,
                        .position = static_cast<int64_t>(i),
                        .wants_logits = i + 1 == text.size()});
      }
    }
    const auto logits = test::run(runner, rows);
    last.insert(last.end(), logits.begin(), logits.end());
  }
  std::sort(last.begin(), last.end());  // makes the order independent of `most`
  return last;
}

TEST_P(FastKernels, LogitsDependOnlyOnTheirSequence) {
  for (const core::DType type : {core::DType::F16, core::DType::BF16}) {
    for (test::Shape shape : test::all_shapes()) {
      if (shape.type != core::DType::F16) continue;
      shape.type = type;
      const core::StoredModel model = test::random_model_of(shape);
      CpuOptions options{.n_threads = 1, .kernels = &fast_, .fast = true};
      Cpu alone(options);
      // F16 models get an F32 cache, others an F16 cache, which --fast stores in BF16 if attention_bf16 is supported.
      const CacheType cache = type == core::DType::F16 ? CacheType::F32 : CacheType::F16;
      const auto expected = last_logits(model, alone, 1, cache);
      options.n_threads = 2;
      Cpu two_threads(options);
      ShardedCpu two_shards(2, options, core::memory_nodes());
      for (const size_t most : {2U, 5U, 16U, 64U}) {
        EXPECT_TRUE(test::same_bits(last_logits(model, two_threads, most, cache), expected))
            << shape.name << ' ' << most;
        EXPECT_TRUE(test::same_bits(last_logits(model, two_shards, most, cache), expected))
            << shape.name << ' ' << most;
      }
    }
  }
}

}  // namespace
}  // namespace folio::infer::kernels
