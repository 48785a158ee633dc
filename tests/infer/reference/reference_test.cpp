// Tests infer/reference against the formulas of kernels.h in double precision. Tolerances bound the rounding error. One
// operation has a relative error of at most u = 2^-24, and n operations in a row have at most n u (Higham 2002, ch. 3).
// Where terms cancel, the error is relative to the sum of their absolute values.
#include "infer/reference/reference.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>

#include "core/exp_constants.h"
#include "tests/infer/support.h"

namespace folio::infer::kernels {
namespace {

using test::random_floats;

constexpr double kU = 0x1.0p-24;
constexpr double kExpError = 4 * kU;  // exp() errs by at most 2 ulp, and an ulp is at most 2 kU times the value

// Returns the maximum number of roundings that a term of a dot product of length k undergoes: when its lane is summed,
// when the 16 lanes are added, and when the sums of chunks are added.
double roundings(size_t k) {
  return static_cast<double>((std::min(k, kChunk) + kLanes - 1) / kLanes + 4 + (k + kChunk - 1) / kChunk);
}

// The magnitudes of the values differ so much that adding them in any other order than the one documented in kernels.h
// gives different bits.
TEST(Reference, DotAddsInTheDocumentedOrder) {
  for (const size_t k : {1U, 15U, 16U, 17U, 33U, 100U, 1024U, 1025U, 2500U}) {
    auto a = random_floats(k, k);
    const auto b = random_floats(k, k + 1);
    for (size_t i = 0; i < k; ++i) a[i] = std::ldexp(a[i], static_cast<int>(core::random_below(3, i, 24)));
    float total = 0.0F;
    for (size_t chunk = 0; chunk < k; chunk += 1024) {
      float s[16] = {};
      for (size_t i = chunk; i < std::min(k, chunk + 1024); ++i) s[i % 16] = std::fma(a[i], b[i], s[i % 16]);
      const auto four = [&](size_t l) { return (s[l] + s[l + 8]) + (s[l + 4] + s[l + 12]); };
      total += (four(0) + four(2)) + (four(1) + four(3));
    }
    EXPECT_EQ(reference::dot(a.data(), b.data(), k), total) << "k " << k;
  }
}

TEST(Reference, MatmulIsADotPerOutput) {
  constexpr size_t kK = 37;
  constexpr size_t kStride = 9;
  const auto x = random_floats(3 * kK, 1);
  const auto weight = random_floats(7 * kK, 2);
  const auto before = random_floats(3 * kStride, 3);
  for (const bool accumulate : {false, true}) {
    auto out = before;
    reference::matmul(x.data(), 3, weight.data(), kK, 2, 7, out.data(), kStride, accumulate);
    for (size_t n = 0; n < 3; ++n) {
      for (size_t r = 0; r < kStride; ++r) {
        const float held = before[n * kStride + r];
        float expected = held;
        if (r >= 2 && r < 7) {
          expected = reference::dot(&x[n * kK], &weight[r * kK], kK);
          if (accumulate) expected = held + expected;
        }
        EXPECT_EQ(out[n * kStride + r], expected);
      }
    }
  }
}

TEST(Reference, ExpIsWithinTwoUnitsInTheLastPlace) {
  double worst = 0.0;
  for (int i = 0; i <= 400000; ++i) {
    const float x = -87.33F + static_cast<float>(i) * (175.7F / 400000.0F);
    const double exact = std::exp(static_cast<double>(x));
    const auto rounded = static_cast<float>(exact);
    const double unit = static_cast<double>(std::nextafter(rounded, std::numeric_limits<float>::infinity())) - rounded;
    worst = std::max(worst, std::abs(reference::exp(x) - exact) / unit);
  }
  EXPECT_LE(worst, 2.0);
}

TEST(Reference, ExpIsExactAtZeroAndClamped) {
  EXPECT_EQ(reference::exp(0.0F), 1.0F);
  EXPECT_EQ(reference::exp(-0.0F), 1.0F);
  EXPECT_EQ(reference::exp(1e-20F), 1.0F);
  EXPECT_EQ(reference::exp(-1e30F), reference::exp(core::exp_constants::kLow));
  EXPECT_EQ(reference::exp(1e30F), reference::exp(core::exp_constants::kHigh));
  EXPECT_GT(reference::exp(-1e30F), 0.0F);
  EXPECT_TRUE(std::isfinite(reference::exp(1e30F)));
}

// u is the unit roundoff. All terms are positive, so the sum of squares has a relative error of at most roundings(n) u,
// which the square root halves. The mean, the addition of eps, the square root, the division and two products add at
// most 5 u.
TEST(Reference, RmsNormIsWithinRoundingErrors) {
  for (const size_t n : {1U, 2U, 15U, 16U, 17U, 100U, 1023U, 1030U, 2500U}) {
    for (const double eps : {1e-6, 1e-5, 0.5}) {
      const auto x = random_floats(n, n, 2.0);
      const auto weight = random_floats(n, n + 1);
      std::vector<float> out(n);
      reference::rms_norm(x.data(), weight.data(), static_cast<float>(eps), n, out.data());
      double sum = 0.0;
      for (const float v : x) sum += static_cast<double>(v) * v;
      const double norm = std::sqrt(sum / static_cast<double>(n) + static_cast<double>(static_cast<float>(eps)));
      for (size_t i = 0; i < n; ++i) {
        const double exact = x[i] / norm * weight[i];
        ASSERT_LE(std::abs(out[i] - exact), (roundings(n) / 2 + 5) * kU * std::abs(exact)) << n << " at " << i;
      }
    }
  }
}

// Compares each pair x with the rotation of a complex number. The error is at most 4 u |x| for the unit roundoff u.
TEST(Reference, RopeRotatesEachPairByItsAngle) {
  using core::RopePairs;
  for (const auto& [head_dim, pairs] : {std::pair{2U, RopePairs::Adjacent},
                                        {6U, RopePairs::Adjacent},
                                        {128U, RopePairs::Adjacent},
                                        {2U, RopePairs::Halves},
                                        {6U, RopePairs::Halves},
                                        {48U, RopePairs::Halves}}) {
    constexpr size_t kHeads = 3;
    const bool halves = pairs == RopePairs::Halves;
    const size_t half = head_dim / 2;
    auto x = random_floats(kHeads * head_dim, head_dim);
    const auto before = x;
    std::vector<float> cos(head_dim);
    std::vector<float> sin(head_dim);
    const auto angle = [](size_t pair) { return 0.7 * static_cast<double>(pair) + 0.3; };
    for (size_t d = 0; d < head_dim; ++d) {
      const double a = angle(halves ? d % half : d / 2);
      const bool first = halves ? d < half : d % 2 == 0;
      cos[d] = static_cast<float>(std::cos(a));
      sin[d] = static_cast<float>(first ? -std::sin(a) : std::sin(a));
    }
    reference::rope(x.data(), cos.data(), sin.data(), kHeads, head_dim, pairs);
    for (size_t pair = 0; pair < kHeads * half; ++pair) {
      const size_t i = pair / half * head_dim + (halves ? pair % half : 2 * (pair % half));
      const size_t j = i + (halves ? half : 1);
      const double re = before[i];
      const double im = before[j];
      const double a = angle(pair % half);
      const double tolerance = 4 * kU * std::hypot(re, im);
      ASSERT_NEAR(x[i], re * std::cos(a) - im * std::sin(a), tolerance) << head_dim << " at " << i;
      ASSERT_NEAR(x[j], re * std::sin(a) + im * std::cos(a), tolerance) << head_dim << " at " << j;
    }
  }
}

// Expects outputs of `gated` to have a relative error of at most `bound`, for gate and up values in [-range, range].
void expect_gate(void (*gated)(const float*, const float*, size_t, float*), double range,
                 const std::function<double(double gate, double up)>& exact,
                 const std::function<double(double gate)>& bound) {
  const auto gate = random_floats(5000, 1, range);
  const auto up = random_floats(5000, 2, range);
  std::vector<float> out(gate.size());
  gated(gate.data(), up.data(), gate.size(), out.data());
  for (size_t i = 0; i < gate.size(); ++i) {
    const double expected = exact(gate[i], up[i]);
    ASSERT_LE(std::abs(out[i] - expected), bound(gate[i]) * std::abs(expected)) << gate[i];
  }
}

// The relative error is at most that of e^-x plus four unit roundoffs: one each for the sum, the quotient and the
// product, and one for all second-order terms.
TEST(Reference, SwigluIsWithinRoundingErrors) {
  expect_gate(
      reference::swiglu, 80.0, [](double gate, double up) { return gate / (1.0 + std::exp(-gate)) * up; },
      [](double) { return kExpError + 4 * kU; });
}

// The argument of exp() in geglu() has four roundings and two rounded constants. An absolute error of the argument is a
// relative error of the result of exp(). The expected value is computed as a quotient, since 1 + tanh would suffer from
// cancellation for very negative gates. The argument is clamped beyond 80.
TEST(Reference, GegluIsWithinRoundingErrors) {
  const auto argument = [](double g) { return 2.0 * std::sqrt(2.0 / std::numbers::pi) * (g + 0.044715 * g * g * g); };
  ASSERT_LT(argument(8.0), 80.0);
  expect_gate(
      reference::geglu, 8.0, [&](double gate, double up) { return gate / (1.0 + std::exp(-argument(gate))) * up; },
      [&](double gate) { return kExpError + (4 + 6 * std::abs(argument(gate))) * kU; });
}

// The bound is that of SwigluIsWithinRoundingErrors, plus the roundings of the argument of exp() and of up + 1.
TEST(Reference, ClampedSwigluIsWithinRoundingErrors) {
  expect_gate(
      reference::clamped_swiglu, 20.0,
      [](double gate, double up) {
        const double g = std::min(gate, 7.0);
        return g / (1.0 + std::exp(-1.702 * g)) * (std::clamp(up, -7.0, 7.0) + 1.0);
      },
      [](double gate) { return kExpError + (5 + 2 * std::abs(1.702 * std::min(gate, 7.0))) * kU; });
}

// soft_cap() computes cap - 2 cap / (e^(2 x / cap) + 1). The bound is relative to cap, since the difference cancels.
TEST(Reference, SoftCapIsWithinRoundingErrors) {
  const float cap = 30.0F;
  std::vector<float> x = random_floats(2000, 1, 100.0);
  const std::vector<float> before = x;
  reference::soft_cap(x.data(), x.size(), cap);
  for (size_t i = 0; i < x.size(); ++i) {
    const double exact = cap * std::tanh(static_cast<double>(before[i]) / cap);
    ASSERT_LE(std::abs(x[i] - exact), 2 * cap * (kExpError + 8 * kU)) << before[i];
  }
}

// The bound is relative to Σ w |v|, where w are the softmax weights and v the values. It is the sum of the bounds for
// the errors of scores, exponentials and sums.
TEST(Reference, AttentionIsASoftmaxOverVisiblePositions) {
  const float sink = 0.7F;
  for (const size_t head_dim : {2U, 10U, 16U, 80U}) {
    for (const auto& [n_positions, window] : {std::pair{1U, 200U},
                                              {2U, 200U},
                                              {31U, 200U},
                                              {32U, 200U},
                                              {33U, 200U},
                                              {64U, 64U},
                                              {65U, 64U},
                                              {65U, 1U},
                                              {100U, 200U},
                                              {100U, 50U},
                                              {100U, 36U}}) {
      const size_t first = n_positions - std::min(n_positions, window);
      const bool has_sink = n_positions % 2 == 1;
      const size_t n_blocks = (n_positions + 31) / 32;
      const size_t head = head_dim * kBlockPositions;
      std::vector<std::vector<float>> memory;
      std::vector<const float*> blocks;
      for (size_t b = 0; b < n_blocks; ++b) memory.push_back(random_floats(2 * head, b + head_dim));
      for (const auto& block : memory) blocks.push_back(block.data());
      const auto query = random_floats(head_dim, 9, 4.0);
      std::vector<float> out(head_dim);
      const float scale = 1.0F / std::sqrt(static_cast<float>(head_dim));
      reference::attention<float>({.query = query.data(),
                                   .blocks = blocks.data(),
                                   .key_offset = 0,
                                   .value_offset = head,
                                   .n_positions = n_positions,
                                   .window = window,
                                   .n_rows = 1,
                                   .row_stride = head_dim,
                                   .n_queries = 1,
                                   .head_dim = head_dim,
                                   .scale = scale,
                                   .sinks = has_sink ? &sink : nullptr},
                                  out.data());

      std::vector<double> score(n_positions, 0.0);
      double score_error = 0.0;
      for (size_t j = 0; j < n_positions; ++j) {
        double absolute = 0.0;
        for (size_t d = 0; d < head_dim; ++d) {
          const double product = static_cast<double>(query[d]) * memory[j / 32][d * 32 + j % 32] * scale;
          score[j] += product;
          absolute += std::abs(product);
        }
        score_error = std::max(score_error, static_cast<double>(head_dim + 1) * kU * absolute);
      }
      const auto [least, largest] = std::minmax_element(score.begin() + static_cast<ptrdiff_t>(first), score.end());
      const double range = std::max<double>(*largest, sink) - std::min<double>(*least, sink);
      double sum = has_sink ? std::exp(sink - *largest) : 0.0;
      for (size_t j = first; j < n_positions; ++j) sum += std::exp(score[j] - *largest);
      const double one_e = kExpError + kU * range;
      const double each =
          score_error + one_e + 36 * kU + static_cast<double>(n_blocks) * (score_error + one_e + 3 * kU);
      for (size_t d = 0; d < head_dim; ++d) {
        double exact = 0.0;
        double absolute = 0.0;
        for (size_t j = first; j < n_positions; ++j) {
          const double term = std::exp(score[j] - *largest) / sum * memory[j / 32][head + j % 32 * head_dim + d];
          exact += term;
          absolute += std::abs(term);
        }
        ASSERT_NEAR(out[d], exact, 2 * each * absolute) << head_dim << " wide, " << n_positions << " positions";
      }
    }
  }
}

}  // namespace
}  // namespace folio::infer::kernels
