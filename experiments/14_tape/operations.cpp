// The tape's operations. Their backward functions add to gradients: a value used twice gets two contributions.
#include "experiments/14_tape/operations.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>

#include "core/error.h"

namespace folio::tape {
namespace {

void require_fit(bool fits, const char* operation, const Tensor& a, const Tensor& b) {
  if (!fits) core::fail("{}: {} and {} don't fit each other", operation, shown(a.shape()), shown(b.shape()));
}

std::shared_ptr<std::vector<int32_t>> checked_copy(std::span<const int32_t> ids, int64_t limit, const char* operation) {
  for (const int32_t id : ids) {
    core::require(id >= 0 && id < limit, "{}: ids must be in [0, {}), but one is {}", operation, limit, id);
  }
  return std::make_shared<std::vector<int32_t>>(ids.begin(), ids.end());
}

}  // namespace

Tensor operator+(const Tensor& a, const Tensor& b) {
  require_fit(a.shape() == b.shape(), "+", a, b);
  const Tensor y = a.tape->record("+", a.shape(), {a, b});
  const size_t n = y.value().size();
  for (size_t i = 0; i < n; ++i) y.value()[i] = a.value()[i] + b.value()[i];
  y.node->rule = [=] {
    for (size_t i = 0; i < n; ++i) {
      a.gradient()[i] += y.gradient()[i];
      b.gradient()[i] += y.gradient()[i];
    }
  };
  return y;
}

Tensor operator*(const Tensor& a, const Tensor& b) {
  require_fit(a.shape() == b.shape(), "*", a, b);
  const Tensor y = a.tape->record("×", a.shape(), {a, b});
  const size_t n = y.value().size();
  for (size_t i = 0; i < n; ++i) y.value()[i] = a.value()[i] * b.value()[i];
  y.node->rule = [=] {
    for (size_t i = 0; i < n; ++i) {
      a.gradient()[i] += y.gradient()[i] * b.value()[i];
      b.gradient()[i] += y.gradient()[i] * a.value()[i];
    }
  };
  return y;
}

Tensor operator*(const Tensor& a, double factor) {
  const Tensor y = a.tape->record(fmt::format("× {:.3g}", factor), a.shape(), {a});
  for (size_t i = 0; i < y.value().size(); ++i) y.value()[i] = a.value()[i] * factor;
  y.node->rule = [=] {
    for (size_t i = 0; i < y.value().size(); ++i) a.gradient()[i] += y.gradient()[i] * factor;
  };
  return y;
}

Tensor matmul(const Tensor& a, const Tensor& b) {
  const int64_t S = a.shape().stack, N = a.shape().rows, K = a.shape().columns, M = b.shape().columns;
  require_fit(b.shape().rows == K && (b.shape().stack == S || b.shape().stack == 1), "matmul", a, b);
  const Tensor y = a.tape->record("matmul", {S, N, M}, {a, b});
  // For each element of a and the row of b that it multiplies, calls body with three offsets: of the row of y, of the
  // element of a, and of the row of b.
  const auto each = [=](auto body) {
    for (int64_t row = 0; row < S * N; ++row) {
      const int64_t first = b.shape().stack == 1 ? 0 : row / N * K;
      for (int64_t k = 0; k < K; ++k) body(row * M, row * K + k, (first + k) * M);
    }
  };
  each([=, A = a.value().data(), B = b.value().data(), Y = y.value().data()](int64_t row, int64_t i, int64_t k) {
    for (int64_t m = 0; m < M; ++m) Y[row + m] += A[i] * B[k + m];
  });
  y.node->rule = [=] {  // dA = dY Bᵀ, dB = Aᵀ dY
    each([=, A = a.value().data(), B = b.value().data(), dA = a.gradient().data(), dB = b.gradient().data(),
          dY = y.gradient().data()](int64_t row, int64_t i, int64_t k) {
      for (int64_t m = 0; m < M; ++m) {
        dA[i] += dY[row + m] * B[k + m];
        dB[k + m] += A[i] * dY[row + m];
      }
    });
  };
  return y;
}

Tensor transpose(const Tensor& a) {
  const auto [S, N, M] = a.shape();
  const Tensor y = a.tape->record("transpose", {S, M, N}, {a});
  const auto source = [N = N, M = M](int64_t i) { return i / (N * M) * N * M + i % N * M + i / N % M; };
  for (int64_t i = 0; i < y.shape().size(); ++i) y.value()[i] = a.value()[source(i)];
  y.node->rule = [=] {
    for (int64_t i = 0; i < y.shape().size(); ++i) a.gradient()[source(i)] += y.gradient()[i];
  };
  return y;
}

Tensor sum(const Tensor& a) {
  const Tensor y = a.tape->record("sum", {}, {a});
  y.value()[0] = std::accumulate(a.value().begin(), a.value().end(), 0.0);
  y.node->rule = [=] {
    for (double& gradient : a.gradient()) gradient += y.gradient()[0];
  };
  return y;
}

Tensor causal_softmax(const Tensor& scores) {
  const auto [S, T, columns] = scores.shape();
  require_fit(T == columns, "causal_softmax", scores, scores);
  const Tensor y = scores.tape->record("causal softmax", scores.shape(), {scores});
  for (int64_t row = 0; row < S * T; ++row) {
    const double* s = &scores.value()[row * T];
    double* p = &y.value()[row * T];
    const int64_t seen = row % T + 1;  // row t of a matrix attends to columns 0 .. t
    const double largest = *std::max_element(s, s + seen);
    double total = 0.0;
    for (int64_t u = 0; u < seen; ++u) total += p[u] = std::exp(s[u] - largest);
    for (int64_t u = 0; u < seen; ++u) p[u] /= total;
  }
  y.node->rule = [=, S = S, T = T] {  // ds_u = p_u (dp_u − Σ dp p)
    for (int64_t row = 0; row < S * T; ++row) {
      const double *p = &y.value()[row * T], *dp = &y.gradient()[row * T];
      const double mean = std::inner_product(p, p + T, dp, 0.0);
      for (int64_t u = 0; u < T; ++u) scores.gradient()[row * T + u] += p[u] * (dp[u] - mean);
    }
  };
  return y;
}

Tensor look_up(const Tensor& table, std::span<const int32_t> ids, int64_t stack) {
  const auto [S, V, D] = table.shape();
  const auto n = static_cast<int64_t>(ids.size());
  core::require(S == 1 && stack > 0 && n % stack == 0, "look_up: {} ids in a stack of {} from the table {}", n, stack,
                shown(table.shape()));
  const auto kept = checked_copy(ids, V, "look_up");
  const Tensor y = table.tape->record("look up", {stack, n / stack, D}, {table});
  for (int64_t i = 0; i < n * D; ++i) y.value()[i] = table.value()[(*kept)[i / D] * D + i % D];
  y.node->rule = [=, D = D] {
    for (int64_t i = 0; i < n * D; ++i) table.gradient()[(*kept)[i / D] * D + i % D] += y.gradient()[i];
  };
  return y;
}

Tensor cross_entropy(const Tensor& logits, std::span<const int32_t> targets) {
  const int64_t V = logits.shape().columns, N = logits.shape().size() / V;
  core::require(static_cast<int64_t>(targets.size()) == N, "cross_entropy: {} targets for the logits {}",
                targets.size(), shown(logits.shape()));
  const auto kept = checked_copy(targets, V, "cross_entropy");
  const Tensor y = logits.tape->record("cross-entropy", {}, {logits});
  const auto p = std::make_shared<Values>(logits.value());  // softmax(logits), saved for the backward pass
  for (int64_t row = 0; row < N; ++row) {
    const auto first = p->begin() + row * V, last = first + V;
    const double largest = *std::max_element(first, last), target = first[(*kept)[row]] - largest;
    double total = 0.0;
    for (auto z = first; z != last; ++z) total += * z = std::exp(*z - largest);
    for (auto z = first; z != last; ++z) *z /= total;
    y.value()[0] += (std::log(total) - target) / static_cast<double>(N);
  }
  y.node->rule = [=] {  // dz_v = (p_v − [v = target]) / N
    const double share = y.gradient()[0] / static_cast<double>(N);
    for (int64_t i = 0; i < N * V; ++i) {
      logits.gradient()[i] += share * ((*p)[i] - (i % V == (*kept)[i / V] ? 1.0 : 0.0));
    }
  };
  return y;
}

}  // namespace folio::tape
