#include "experiments/33_cuda/g_attention.h"

#include <cmath>

#include "tests/experiments/33_cuda/lesson_support.h"

namespace folio::experiments {
namespace {

/// Attention inputs of two heads. The KV cache's blocks are in reverse order, and positions past the end are NaN.
struct Past {
  static constexpr size_t kHeads = 2;

  Past(Stream& stream, size_t positions, float scale) {
    const size_t n_blocks = (positions + kCachePositions - 1) / kCachePositions;
    std::vector<float> pool(n_blocks * kHeads * 2 * kCachePositions * kQueryDim, NAN);
    std::vector<int32_t> blocks(n_blocks);
    for (size_t b = 0; b < n_blocks; ++b) blocks[b] = static_cast<int32_t>(n_blocks - 1 - b);
    const std::vector<float> queries = ramp(kHeads * kQueryDim);
    for (size_t head = 0; head < kHeads; ++head) {
      std::vector<double> weights(positions);
      double sum = 0.0;
      std::vector<double> out(kQueryDim);
      for (size_t p = 0; p < positions; ++p) {
        const size_t keys = (static_cast<size_t>(blocks[p / kCachePositions]) * kHeads + head) * 2 * kCachePositions;
        double score = 0.0;
        for (size_t d = 0; d < kQueryDim; ++d) {
          const float key = std::sin(static_cast<float>(p * 3 + d * 7 + head));
          pool[(keys + p % kCachePositions) * kQueryDim + d] = key;
          pool[(keys + kCachePositions + p % kCachePositions) * kQueryDim + d] = value(head, p, d);
          score += double{key} * queries[head * kQueryDim + d];
        }
        weights[p] = std::exp(score * scale);
        sum += weights[p];
        for (size_t d = 0; d < kQueryDim; ++d) out[d] += weights[p] * value(head, p, d);
      }
      for (const double x : out) expected.push_back(x / sum);
    }
    query = on_device(stream, queries);
    cache = on_device(stream, pool);
    table = on_device(stream, blocks);
    scores = unwritten(stream, kHeads * positions * sizeof(float));
    partials = unwritten(stream, kHeads * (positions / kPartOfPositions + 1) * (kQueryDim + 2) * sizeof(float));
    view = {query.as<float>(),
            cache.as<float>(),
            table.as<int32_t>(),
            kHeads,
            positions,
            scale,
            scores.as<float>(),
            partials.as<float>(),
            nullptr};
  }
  static float value(size_t head, size_t p, size_t d) { return std::cos(static_cast<float>(p + 5 * d + 11 * head)); }

  DeviceMemory query, cache, table, scores, partials;
  CachedAttention view;
  std::vector<double> expected;
};

TEST(CudaAttention, AnyNumberOfPositions) {
  Stream stream(0);
  for (const size_t positions : {1U, 2U, 16U, 17U, 63U, 64U, 65U, 129U}) {
    for (const float scale : {0.125F, 20.0F}) {  // with 20, e^s overflows unless the maximum is subtracted
      const Past past(stream, positions, scale);
      for (auto* run : {attention_in_passes, attention_online, attention_split}) {
        const auto y = outputs_of(stream, past.expected.size(), positions == 65, [&](float* out) {
          CachedAttention a = past.view;
          a.out = out;
          run(stream, a);
        });
        for (size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(y[i], past.expected[i], 2e-4) << positions << " " << i;
      }
    }
  }
}

}  // namespace
}  // namespace folio::experiments
