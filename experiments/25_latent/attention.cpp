#include "experiments/25_latent/attention.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace folio::experiments {
namespace {

// Vectors of `dim` elements in memory; `distance` is the stride between their starts, in elements.
struct Vectors {
  const float* first;
  int64_t distance, dim;
  const float* operator[](int64_t i) const { return first + i * distance; }
};

float dot(const float* a, const float* b, int64_t n) { return std::inner_product(a, a + n, b, 0.0F); }

void add(float* y, float factor, const float* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] += factor * x[i];
}

// Adds W x to y; W is (rows, columns).
void multiply(const float* w, int64_t rows, int64_t columns, const float* x, float* y, Work& work) {
  for (int64_t i = 0; i < rows; ++i) y[i] += dot(w + i * columns, x, columns);
  work.multiply_adds += rows * columns;
}

// Adds Wᵀ x to y; W is (rows, columns).
void multiply_transposed(const float* w, int64_t rows, int64_t columns, const float* x, float* y, Work& work) {
  for (int64_t i = 0; i < rows; ++i) add(y, x[i], w + i * columns, columns);
  work.multiply_adds += rows * columns;
}

// Adds Σ p_t v_t to `out`, where p is the softmax of scale · q k_t over positions t < n.
void attend(const float* q, Vectors k, Vectors v, int64_t n, float scale, float* out, Work& work) {
  Floats weights(static_cast<size_t>(n));
  for (int64_t t = 0; t < n; ++t) weights[t] = scale * dot(q, k[t], k.dim);
  const float largest = *std::ranges::max_element(weights);
  for (float& w : weights) w = std::exp(w - largest);
  const float sum = std::accumulate(weights.begin(), weights.end(), 0.0F);
  for (int64_t t = 0; t < n; ++t) add(out, weights[t] / sum, v[t], v.dim);
  work.multiply_adds += n * (k.dim + v.dim);
}

float scale_of(int64_t key_dim) { return 1.0F / std::sqrt(static_cast<float>(key_dim)); }

int64_t size(const Floats& x) { return std::ssize(x); }

Floats zeros(int64_t n) { return Floats(static_cast<size_t>(n), 0.0F); }

}  // namespace

Floats grouped(const Grouped& a, const Floats& q, const Floats& cache, Work& work) {
  const int64_t H = a.n_heads, D = a.head_dim, own = a.n_kv_heads * D;
  const int64_t rows = size(q) / (H * D), positions = size(cache) / (2 * own);
  Floats out = zeros(rows * H * D);
  for (int64_t h = 0; h < H; ++h) {
    const float* keys = cache.data() + h / (H / a.n_kv_heads) * D;
    for (int64_t i = 0; i < rows; ++i) {
      attend(&q[(i * H + h) * D], {keys, 2 * own, D}, {keys + own, 2 * own, D}, positions - rows + i + 1, scale_of(D),
             &out[(i * H + h) * D], work);
    }
  }
  work.elements += size(cache);
  return out;
}

Floats plain(const Latent& a, const Floats& q, const Floats& cache, Work& work) {
  const int64_t H = a.n_heads, R = a.rank, N = a.nope, P = a.rope, V = a.value;
  const int64_t rows = size(q) / (H * (N + P)), positions = size(cache) / (R + P);
  Floats out = zeros(rows * H * V);
  for (int64_t h = 0; h < H; ++h) {
    Floats k = zeros(positions * (N + P)), v = zeros(positions * V);
    for (int64_t t = 0; t < positions; ++t) {
      const float* c = &cache[t * (R + P)];
      multiply(&a.wk[h * N * R], N, R, c, &k[t * (N + P)], work);  // k = [W_k c; r]
      std::copy_n(c + R, P, &k[t * (N + P) + N]);
      multiply(&a.wv[h * V * R], V, R, c, &v[t * V], work);  // v = W_v c
    }
    for (int64_t i = 0; i < rows; ++i) {
      attend(&q[(i * H + h) * (N + P)], {k.data(), N + P, N + P}, {v.data(), V, V}, positions - rows + i + 1,
             scale_of(N + P), &out[(i * H + h) * V], work);
    }
    work.elements += 2 * (size(k) + size(v));  // written and read
  }
  work.elements += size(cache) + size(a.wk) + size(a.wv);
  return out;
}

Floats absorbed(const Latent& a, const Floats& q, const Floats& cache, Work& work) {
  const int64_t H = a.n_heads, R = a.rank, N = a.nope, P = a.rope, V = a.value;
  const int64_t rows = size(q) / (H * (N + P)), positions = size(cache) / (R + P);
  Floats out = zeros(rows * H * V);
  for (int64_t h = 0; h < H; ++h) {
    for (int64_t i = 0; i < rows; ++i) {
      const float* q_h = &q[(i * H + h) * (N + P)];
      Floats query = zeros(R + P), latent = zeros(R);
      multiply_transposed(&a.wk[h * N * R], N, R, q_h, query.data(), work);  // [W_kᵀ q; q's rotated part]
      std::copy_n(q_h + N, P, &query[R]);
      attend(query.data(), {cache.data(), R + P, R + P}, {cache.data(), R + P, R}, positions - rows + i + 1,
             scale_of(N + P), latent.data(), work);
      multiply(&a.wv[h * V * R], V, R, latent.data(), &out[(i * H + h) * V], work);  // W_v Σ weight · c
    }
  }
  work.elements += size(cache) + size(a.wk) + size(a.wv);
  return out;
}

namespace {

// Returns the number of (row, position) pairs for which one head computes a score.
int64_t scores(int64_t n_cached, int64_t rows) { return rows * n_cached + rows * (rows + 1) / 2; }

int64_t weights_of(const Latent& a) { return a.n_heads * a.rank * (a.nope + a.value); }

}  // namespace

Work plain_work(const Latent& a, int64_t n_cached, int64_t rows) {
  const int64_t head = a.nope + a.rope + a.value, positions = n_cached + rows;
  return {positions * weights_of(a) + a.n_heads * scores(n_cached, rows) * head,
          positions * (a.rank + a.rope) + weights_of(a) + 2 * positions * a.n_heads * head};
}

Work absorbed_work(const Latent& a, int64_t n_cached, int64_t rows) {
  return {rows * weights_of(a) + a.n_heads * scores(n_cached, rows) * (2 * a.rank + a.rope),
          (n_cached + rows) * (a.rank + a.rope) + weights_of(a)};
}

int64_t crossing(const Latent& a, int64_t n_cached) {
  int64_t rows = 1;
  while (plain_work(a, n_cached, rows).multiply_adds >= absorbed_work(a, n_cached, rows).multiply_adds) ++rows;
  return rows;
}

}  // namespace folio::experiments
