// Tests 8-bit adapters (low-rank matrices a, b) of quantized models: one scale for each row of a and each column of b.
#include "infer/cpu/cpu_adapters.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/thread_pool.h"
#include "tests/infer/support.h"

namespace folio::infer {
namespace {

constexpr size_t kRank = 5;

test::Shape q8_shape() {
  const auto shapes = test::typed_shapes();
  return *std::ranges::find_if(shapes, [](const test::Shape& s) { return s.type == core::DType::Q8_0; });
}

// Returns the vector that `part`, an adapter of Wo, adds to the output for the input x.
std::vector<float> added(const core::Adapter::Part& part, std::span<const float> x) {
  const core::StoredModel model = test::random_model_of(q8_shape());
  core::ThreadPool pool(1);
  const CpuWeights weights(model, {.layers = {0, 1}}, pool, {});
  const WeightId id = weights.by_role()(core::Role::Wo, 0);
  CpuAdapters adapters;
  adapters.load(3, {.path = "test", .parts = {part}}, {0, 1}, weights);
  const StepRow row{.token = 0, .table = 0, .position = 0, .needs_logits = false, .adapter = 3};
  adapters.begin(std::span(&row, 1));
  const auto& kernels = kernels::kernels_for(kernels::isas_with_kernels().back());
  const Projection projection{.weight = id, .bias = {}, .out = {}};
  adapters.project(pool, kernels, std::span(&projection, 1), x.data(), x.size());
  const size_t n = weights.matrix(id).n_out;
  std::vector<float> out((n + 15) / 16 * 16);
  adapters.add(kernels, id, 0, n, out.data(), out.size());
  out.resize(n);
  return out;
}

core::Adapter::Part random_part() {
  const auto& config = q8_shape().config;
  core::Adapter::Part part{.role = core::Role::Wo, .layer = 0, .rank = kRank, .scale = 0.7F, .a = {}, .b = {}};
  part.a = test::random_floats(kRank * static_cast<size_t>(config.query_dim()), 1);
  part.b = test::random_floats(kRank * static_cast<size_t>(config.dim), 2);
  // Scales of rows and columns differ by orders of magnitude, so that a swapped scale is detected.
  const size_t k = part.a.size() / kRank;
  for (size_t i = 0; i < part.a.size(); ++i) part.a[i] *= std::pow(10.0F, static_cast<float>(i / k));
  for (size_t i = 0; i < part.b.size(); ++i) part.b[i] *= std::pow(7.0F, -static_cast<float>(i % kRank));
  return part;
}

TEST(CpuAdapters, QuantizedAdapterErrorIsAtMostHalfAStep) {
  const core::Adapter::Part part = random_part();
  const size_t k = part.a.size() / kRank, n = part.b.size() / kRank;
  const auto x = test::random_floats(k, 3);
  const auto got = added(part, x);
  ASSERT_EQ(got.size(), n);

  double sum_x = 0.0;
  for (const float value : x) sum_x += std::abs(value);
  std::vector<double> t(kRank), t_off(kRank), largest_b(kRank);
  for (size_t j = 0; j < kRank; ++j) {
    double largest = 0.0;
    for (size_t i = 0; i < k; ++i) {
      t[j] += static_cast<double>(part.a[j * k + i]) * x[i];
      largest = std::max(largest, std::abs(static_cast<double>(part.a[j * k + i])));
    }
    t_off[j] = sum_x * largest / 254;
    for (size_t i = 0; i < n; ++i) {
      largest_b[j] = std::max(largest_b[j], std::abs(static_cast<double>(part.b[i * kRank + j])));
    }
  }
  double worst = 0.0;
  for (size_t i = 0; i < n; ++i) {
    double expected = 0.0, bound = 0.0;
    for (size_t j = 0; j < kRank; ++j) {
      const double b = part.b[i * kRank + j];
      expected += part.scale * b * t[j];
      bound += part.scale * ((std::abs(b) + largest_b[j] / 254) * t_off[j] + largest_b[j] / 254 * std::abs(t[j]));
    }
    // The factor 1.001 allows for rounding of the float32 sums, which is less than a thousandth of the bound.
    EXPECT_LE(std::abs(got[i] - expected), bound * 1.001) << i;
    worst = std::max(worst, std::abs(got[i] - expected) / bound);
  }
  EXPECT_GT(worst, 1e-3);  // fails if the adapter was not quantized
}

TEST(CpuAdapters, NewAdapterAddsZeroAndDamageShows) {
  core::Adapter::Part part = random_part();
  const auto x = test::random_floats(part.a.size() / kRank, 3);
  std::ranges::fill(part.b, 0.0F);
  for (const float y : added(part, x)) EXPECT_EQ(y, 0.0F);
  part.b[2 * kRank] = std::numeric_limits<float>::infinity();
  EXPECT_FALSE(std::isfinite(added(part, x)[2]));
}

}  // namespace
}  // namespace folio::infer
