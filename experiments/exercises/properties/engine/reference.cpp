#include "experiments/exercises/properties/engine/reference.h"

#include <cmath>
#include <vector>

#include "infer/reference/reference.h"

namespace folio::exercises::reference {

namespace kernels = infer::kernels;

void rms_norm(const float* x, const float* weight, float eps, size_t n_positions, size_t dim, float* out) {
  for (size_t t = 0; t < n_positions; ++t) kernels::reference::rms_norm(x + t * dim, weight, eps, dim, out + t * dim);
}

void rope(float* x, size_t position, size_t n_heads, size_t head_dim, float theta) {
  std::vector<float> cos(head_dim);
  std::vector<float> sin(head_dim);  // sine of the angle, negated for the first element of each pair
  for (size_t d = 0; d < head_dim; ++d) {
    const double exponent = -static_cast<double>(d / 2 * 2) / static_cast<double>(head_dim);
    const double angle = static_cast<double>(position) * std::pow(static_cast<double>(theta), exponent);
    cos[d] = static_cast<float>(std::cos(angle));
    sin[d] = static_cast<float>(d % 2 == 0 ? -std::sin(angle) : std::sin(angle));
  }
  kernels::reference::rope(x, cos.data(), sin.data(), n_heads, head_dim, core::RopePairs::Adjacent);
}

void swiglu(const float* gate, const float* up, size_t n, float* out) { kernels::reference::swiglu(gate, up, n, out); }

void matmul(const float* x, const float* weight, size_t n_rows, size_t n_in, size_t n_out, float* out) {
  kernels::reference::matmul(x, n_rows, weight, n_in, 0, n_out, out, n_out, false);
}

// Calls the engine's kernel on each key/value head, copied to cache blocks: keys (head_dim, 32), values (32, head_dim).
void attention(const float* q, const float* k, const float* v, const AttentionShape& s, float* out) {
  constexpr size_t kPositions = kernels::kBlockPositions;
  const size_t block_size = 2 * s.head_dim * kPositions;
  const size_t n_blocks = (s.n_positions + kPositions - 1) / kPositions;
  const size_t group = s.n_heads / s.n_kv_heads;
  std::vector<float> memory(n_blocks * block_size);
  std::vector<const float*> blocks;
  for (size_t b = 0; b < n_blocks; ++b) blocks.push_back(&memory[b * block_size]);
  for (size_t head = 0; head < s.n_kv_heads; ++head) {
    for (size_t t = 0; t < s.n_positions; ++t) {
      float* keys = &memory[t / kPositions * block_size];
      float* values = keys + s.head_dim * kPositions;
      for (size_t d = 0; d < s.head_dim; ++d) {
        const size_t from = (t * s.n_kv_heads + head) * s.head_dim + d;
        keys[d * kPositions + t % kPositions] = k[from];
        values[t % kPositions * s.head_dim + d] = v[from];
      }
    }
    for (size_t r = 0; r < s.n_queries; ++r) {
      const size_t first = (r * s.n_heads + head * group) * s.head_dim;
      kernels::reference::attention<float>({.query = q + first,
                                            .blocks = blocks.data(),
                                            .key_offset = 0,
                                            .value_offset = s.head_dim * kPositions,
                                            .n_positions = s.n_positions - s.n_queries + r + 1,
                                            .window = s.n_positions,
                                            .n_rows = 1,
                                            .row_stride = s.n_heads * s.head_dim,
                                            .n_queries = group,
                                            .head_dim = s.head_dim,
                                            .scale = 1.0F / std::sqrt(static_cast<float>(s.head_dim))},
                                           out + first);
    }
  }
}

}  // namespace folio::exercises::reference
