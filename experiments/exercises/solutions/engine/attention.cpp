#include <algorithm>
#include <cmath>
#include <vector>

#include "experiments/exercises/engine/kernels.h"

namespace folio::exercises {

void attention(const float* q, const float* k, const float* v, const AttentionShape& shape, float* out) {
  const auto [n_queries, n_positions, n_heads, n_kv_heads, head_dim] = shape;
  const float scale = 1.0F / std::sqrt(static_cast<float>(head_dim));
  for (size_t r = 0; r < n_queries; ++r) {
    const size_t n_seen = n_positions - n_queries + r + 1;
    for (size_t h = 0; h < n_heads; ++h) {
      const size_t kv_head = h / (n_heads / n_kv_heads);
      const float* query = q + (r * n_heads + h) * head_dim;
      std::vector<float> weight(n_seen);
      for (size_t j = 0; j < n_seen; ++j) {
        const float* key = k + (j * n_kv_heads + kv_head) * head_dim;
        float score = 0.0F;
        for (size_t d = 0; d < head_dim; ++d) score += query[d] * key[d];
        weight[j] = score * scale;
      }
      const float max = *std::max_element(weight.begin(), weight.end());
      float sum = 0.0F;
      for (float& w : weight) sum += w = std::exp(w - max);
      float* result = out + (r * n_heads + h) * head_dim;
      std::fill_n(result, head_dim, 0.0F);
      for (size_t j = 0; j < n_seen; ++j) {
        const float* value = v + (j * n_kv_heads + kv_head) * head_dim;
        for (size_t d = 0; d < head_dim; ++d) result[d] += weight[j] / sum * value[d];
      }
    }
  }
}

}  // namespace folio::exercises
