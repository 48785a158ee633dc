// Simulates speculative decoding: draft tokens are accepted at random, and step times follow a simple machine model.
#pragma once

#include <cstdint>
#include <functional>

#include "infer/engine/goodput.h"

namespace folio::experiments {

/// Returns the expected number of tokens of a step with `n` draft tokens, each of which is right with probability
/// `right` if all before it are right.
[[nodiscard]] double tokens_of(double right, size_t n);

/// Returns the mean number of tokens over `n_steps` simulated steps, which approaches tokens_of(right, n).
[[nodiscard]] double drawn_tokens(double right, size_t n, size_t n_steps, uint64_t seed);

/// A machine model: a step of `rows` rows takes max(1, rows / rows_of_a_read), in units of reading the weights once.
struct Machine {
  double rows_of_a_read;
  [[nodiscard]] double seconds(size_t rows) const;
};

/// Returns the tokens per unit of time of `n` sequences that try `length` drafts each.
[[nodiscard]] double fixed_rate(const Machine& machine, double right, size_t n, size_t length);

/// Returns the tokens per unit of time with draft lengths chosen by the engine, over the last half of `n_steps`
/// simulated steps of `n` sequences, with at most `most` drafts each. Step times have 3 % noise.
[[nodiscard]] double decided_rate(const Machine& machine, double right, size_t n, size_t most, size_t n_steps,
                                  uint64_t seed);

}  // namespace folio::experiments
