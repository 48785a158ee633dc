// Measures the limits of one core, and the time of a decode step of n sequences on it. Times are CPU times, which are
// less sensitive to other processes; they are shown but never checked.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "infer/cpu/cpu.h"

namespace folio::experiments {

/// The two limits of the roofline of one core (Williams et al. 2009).
struct Roofs {
  double bytes_per_s = 0.0;          ///< memory bandwidth of reads
  double multiply_adds_per_s = 0.0;  ///< by the engine's matmul, with weights that fit into the cache
};

/// Measures each limit for about `seconds` and returns the highest rates. Bandwidth is measured by reading a buffer of
/// `bytes` bytes, which should be many times the size of the caches.
[[nodiscard]] Roofs measure_roofs(const infer::Cpu& cpu, size_t bytes, double seconds);

/// Returns the shape of a model that is larger than the CPU's caches unless `small`.
[[nodiscard]] core::ModelConfig timed_config(bool small);

struct StepTime {
  int64_t n_sequences = 0;
  double seconds = 0.0;        ///< CPU time of the fastest step
  double weight_bytes = 0.0;   ///< bytes of weights read per step
  double multiply_adds = 0.0;  ///< per step, including attention
};

/// Times decode steps for each number of sequences in `numbers`, each for about `seconds_each` seconds. `cpu` must have
/// one thread.
[[nodiscard]] std::vector<StepTime> time_steps(infer::Cpu& cpu, const core::StoredModel& model,
                                               std::span<const int64_t> numbers, double seconds_each);

}  // namespace folio::experiments
