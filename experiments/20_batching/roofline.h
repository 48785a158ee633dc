// Measures the limits of one core, and the time of a decode step of n sequences on it. Times are CPU times, which are
// less sensitive to other processes; they are shown but never checked.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "infer/cpu/cpu.h"

namespace folio::experiments {

/// The two limits of a roofline (Williams et al. 2009).
struct Roofs {
  double bytes_per_s = 0.0;          ///< reading from memory
  double multiply_adds_per_s = 0.0;  ///< of the engine's product with matrices that fit in the cache
};

/// Measures both limits, each as the best of several passes that take `seconds` in total. `bytes` should be many times
/// the size of the caches.
[[nodiscard]] Roofs measure_roofs(const infer::Cpu& cpu, size_t bytes, double seconds);

/// Returns a model with random weights, larger than any cache, or a small one if `small`. Its output is noise.
[[nodiscard]] core::StoredModel random_model(bool small);

struct StepTime {
  int64_t n_sequences = 0;
  double seconds = 0.0;        ///< fastest step
  double weight_bytes = 0.0;   ///< read per step
  double multiply_adds = 0.0;  ///< per step, including attention
};

/// Times decode steps with each number of sequences, about `seconds` for each. `cpu` must have one thread.
[[nodiscard]] std::vector<StepTime> time_steps(infer::Cpu& cpu, const core::StoredModel& model,
                                               std::span<const int64_t> numbers, double seconds_each);

}  // namespace folio::experiments
