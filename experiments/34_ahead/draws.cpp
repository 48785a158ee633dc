#include "experiments/34_ahead/draws.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/random.h"

namespace folio::experiments {

double tokens_of(double right, size_t n) {
  double tokens = 1.0;
  for (size_t i = 1; i <= n; ++i) tokens += std::pow(right, static_cast<double>(i));
  return tokens;
}

double drawn_tokens(double right, size_t n, size_t n_steps, uint64_t seed) {
  size_t tokens = 0;
  for (size_t step = 0; step < n_steps; ++step) {
    size_t n_right = 0;
    while (n_right < n && core::random_uniform(seed, step * n + n_right) < right) ++n_right;
    tokens += 1 + n_right;
  }
  return ratio(tokens, n_steps);
}

double Machine::seconds(size_t rows) const { return std::max(1.0, static_cast<double>(rows) / rows_of_a_read); }

double fixed_rate(const Machine& machine, double right, size_t n, size_t length) {
  return static_cast<double>(n) * tokens_of(right, length) / machine.seconds(n * (1 + length));
}

double decided_rate(const Machine& machine, double right, size_t n, size_t most, size_t n_steps, uint64_t seed) {
  infer::Goodput goodput;
  std::vector<infer::Acceptance> acceptances(n, infer::Acceptance(&goodput.acceptance()));
  double tokens = 0.0;
  double seconds = 0.0;
  uint64_t draws = 0;
  for (size_t step = 0; step < n_steps; ++step) {
    std::vector<infer::Goodput::Candidate> candidates;
    for (const infer::Acceptance& a : acceptances) candidates.push_back({a.first(), a.next(), most});
    const auto chosen = goodput.choose(candidates, n);
    const std::vector<size_t> lengths(chosen.begin(), chosen.end());
    goodput.drafted(lengths, 0.0);
    size_t n_rows = n;
    size_t n_tokens = n;
    for (size_t i = 0; i < n; ++i) {
      size_t n_right = 0;
      while (n_right < lengths[i] && core::random_uniform(seed, draws++) < right) ++n_right;
      acceptances[i].learn(lengths[i], n_right);
      n_rows += lengths[i];
      n_tokens += n_right;
    }
    const double noise = 0.94 + 0.12 * core::random_uniform(seed, draws++);
    goodput.measured(n_rows, machine.seconds(n_rows) * noise);
    if (2 * step < n_steps) continue;
    tokens += static_cast<double>(n_tokens);
    seconds += machine.seconds(n_rows);
  }
  return tokens / seconds;
}

}  // namespace folio::experiments
