// Drawn machines and drawn sequences: steps whose times and right drafts follow planted laws.
#pragma once

#include <cstdint>
#include <functional>

#include "infer/engine/goodput.h"

namespace folio::experiments {

/// Returns the expected number of tokens of a step with `n` drafts, each right with probability `right` if all before
/// it are.
[[nodiscard]] double tokens_of(double right, size_t n);

/// Returns the mean number of tokens of `n_steps` drawn steps.
[[nodiscard]] double drawn_tokens(double right, size_t n, size_t n_steps, uint64_t seed);

/// A machine: a step of `rows` rows takes max(1, rows / rows_of_a_read), in units of reading the weights once.
struct Machine {
  double rows_of_a_read;
  [[nodiscard]] double seconds(size_t rows) const;
};

/// Returns the tokens per unit of time of `n` sequences that try `length` drafts each.
[[nodiscard]] double fixed_rate(const Machine& machine, double right, size_t n, size_t length);

/// Returns the tokens per unit of time that the engine's decision reaches in the last half of `n_steps` drawn steps of
/// `n` sequences, with at most `most` drafts each. Times have 3 % of noise.
[[nodiscard]] double decided_rate(const Machine& machine, double right, size_t n, size_t most, size_t n_steps,
                                  uint64_t seed);

}  // namespace folio::experiments
