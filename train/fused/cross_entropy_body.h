// The loss of one row of logits z with target t: log Σ_j e^(z_j) - z_t. The largest logit m is taken out of the sum,
// so that nothing overflows: m + log Σ_j e^(z_j - m) - z_t.
// Backward: dz_j = softmax(z)_j - [j = t]. It overwrites the logits.
#pragma once

#include "train/fused/numbers.h"

namespace folio::train::fused {
namespace {

template <typename T>
void cross_entropy(T* logits, const int64_t* targets, size_t n, size_t n_classes, double scale, double* loss) {
  using R = Real<T>;
  for (size_t i = 0; i < n; ++i, logits += n_classes) {
    const auto target = static_cast<size_t>(targets[i]);
    R largest = real(logits[0]);
#pragma omp simd reduction(max : largest)
    for (size_t j = 0; j < n_classes; ++j) largest = real(logits[j]) > largest ? real(logits[j]) : largest;
    R sum = 0;
#pragma omp simd reduction(+ : sum)
    for (size_t j = 0; j < n_classes; ++j) sum += exp(real(logits[j]) - largest);
    *loss += static_cast<double>(largest - real(logits[target])) + std::log(static_cast<double>(sum));
    if (scale == 0) continue;
    const R factor = static_cast<R>(scale) / sum;
    const R of_target = exp(real(logits[target]) - largest) * factor - static_cast<R>(scale);
#pragma omp simd
    for (size_t j = 0; j < n_classes; ++j) logits[j] = rounded<T>(exp(real(logits[j]) - largest) * factor);
    logits[target] = rounded<T>(of_target);
  }
}

}  // namespace
}  // namespace folio::train::fused
