#include "experiments/16_kernels/step_list.h"

#include <fmt/format.h>

#include <cmath>

#include "core/isa.h"
#include "core/random.h"
#include "experiments/16_kernels/steps.h"
#include "experiments/16_kernels/vectors.h"
#include "experiments/common/statistics.h"
#include "infer/reference/kernels.h"

namespace folio::experiments {
namespace {

using Four = float __attribute__((vector_size(16)));
using Eight = float __attribute__((vector_size(32)));
using Sixteen = float __attribute__((vector_size(64)));

template <typename Vec>
void count_vectors(CountingMemory& memory, const Product& p) {
  if (p.n == 1) {
    vector_tiles<Vec, 1>(memory, p, 0, p.r);
  } else {
    vector_tiles<Vec, 2>(memory, p, 0, p.r);
  }
}

}  // namespace

Problem::Problem(size_t n, size_t r, size_t k, uint64_t seed) : numbers((n + r) * k + n * r), product{} {
  for (size_t i = 0; i < (n + r) * k; ++i) {
    numbers[i] = static_cast<float>(2.0 * core::random_uniform(seed, i) - 1.0);
  }
  const float* x = numbers.data();
  product = {.x = x, .w = x + n * k, .out = numbers.data() + (n + r) * k, .n = n, .r = r, .k = k};
}

std::vector<Step> steps(core::ThreadPool& pool, size_t n) {
  const VectorStep& vector = vector_step();
  const auto& engine = infer::kernels::kernels_for(core::select_isa());
  const auto plain = [](auto step) {
    return [step](const Product& p) {
      Direct memory;
      step(memory, p);
    };
  };
  const auto columns = [](auto& m, const Product& p) { by_columns(m, p); };
  const auto rows = [](auto& m, const Product& p) { by_rows(m, p); };
  const auto once = [](auto& m, const Product& p) { weights_once(m, p); };
  const auto tiled = [n](auto& m, const Product& p) { n == 1 ? tiles<1>(m, p) : tiles<2>(m, p); };
  const auto vectors = [lanes = vector.lanes](CountingMemory& m, const Product& p) {
    if (lanes == 4) count_vectors<Four>(m, p);
    if (lanes == 8) count_vectors<Eight>(m, p);
    if (lanes == 16) count_vectors<Sixteen>(m, p);
  };
  return {{"by columns", plain(columns), columns},
          {"by rows", plain(rows), rows},
          {"each weight once", plain(once), once},
          {"tiles", plain(tiled), tiled},
          {fmt::format("vectors ({})", vector.name), [&](const Product& p) { vector.product(p, 0, p.r); }, vectors,
           false, false},
          {fmt::format("{} threads", pool.size()),
           [&](const Product& p) {
             pool.parallel_for(p.r, kTileRows, [&](size_t begin, size_t end) { vector.product(p, begin, end); });
           },
           {},
           true,
           false},
          {"the engine's kernel",
           [&](const Product& p) {
             pool.parallel_for(p.r, infer::kernels::kLanes, [&](size_t begin, size_t end) {
               engine.matmul(p.x, p.n, p.w, p.k, begin, end, p.out, p.r, false);
             });
           },
           {},
           true,
           false}};
}

double error_by_bound(const Product& p, const std::vector<float>& results) {
  const double u = std::ldexp(static_cast<double>(p.k), -24);
  double worst = 0.0;
  for (size_t n = 0; n < p.n; ++n) {
    for (size_t r = 0; r < p.r; ++r) {
      double exact = 0.0, sizes = 0.0;
      for (size_t k = 0; k < p.k; ++k) {
        const double product = static_cast<double>(p.x[n * p.k + k]) * static_cast<double>(p.w[r * p.k + k]);
        exact += product;
        sizes += std::abs(product);
      }
      const double error = std::abs(results[n * p.r + r] - exact) / (u / (1.0 - u) * sizes);
      worst = larger(worst, error);
    }
  }
  return worst;
}

}  // namespace folio::experiments
