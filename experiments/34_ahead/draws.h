// Simulates speculative decoding: draft tokens are accepted at random, and step times follow a simple machine model.
#pragma once

#include <cstdint>
#include <functional>

#include "infer/engine/goodput.h"

namespace folio::experiments {

/// Returns the expected number of tokens of a step with `n` draft tokens. A draft token is accepted with probability
/// `right` if all earlier ones are accepted.
[[nodiscard]] double tokens_of(double right, size_t n);

/// Returns the mean number of tokens over `n_steps` simulated steps, which approaches tokens_of(right, n).
[[nodiscard]] double drawn_tokens(double right, size_t n, size_t n_steps, uint64_t seed);

/// A machine model: a step of `rows` rows takes max(1, rows / rows_of_a_read). The unit is the time to read the weights
/// once, in which rows_of_a_read rows can be computed.
struct Machine {
  double rows_of_a_read;
  [[nodiscard]] double seconds(size_t rows) const;
};

/// Returns the throughput of `n` sequences with `length` draft tokens each, in tokens per time to read the weights
/// once.
[[nodiscard]] double fixed_rate(const Machine& machine, double right, size_t n, size_t length);

/// Like fixed_rate(), but the engine chooses draft lengths of at most `most`. Averages over the last half of `n_steps`
/// simulated steps. The step times that the engine sees have random errors of up to 6 %.
[[nodiscard]] double decided_rate(const Machine& machine, double right, size_t n, size_t most, size_t n_steps,
                                  uint64_t seed);

}  // namespace folio::experiments
