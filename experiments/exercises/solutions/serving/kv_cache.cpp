#include <algorithm>
#include <stdexcept>

#include "experiments/exercises/serving/serving.h"

namespace folio::exercises {

void append(KvCache& cache, const Floats& k, const Floats& v) {
  const auto [n_kv_heads, capacity, head_dim] = std::array{cache.n_kv_heads, cache.capacity, cache.head_dim};
  const size_t n_rows = k.size() / (n_kv_heads * head_dim);
  if (cache.length + n_rows > capacity) throw std::length_error("the KV cache is full");
  for (size_t r = 0; r < n_rows; ++r) {
    for (size_t head = 0; head < n_kv_heads; ++head) {
      const size_t from = (r * n_kv_heads + head) * head_dim;
      const size_t to = (head * capacity + cache.length + r) * head_dim;
      std::copy_n(&k[from], head_dim, &cache.keys[to]);
      std::copy_n(&v[from], head_dim, &cache.values[to]);
    }
  }
  cache.length += n_rows;
}

}  // namespace folio::exercises
