// What one core of this machine reaches, and how long a decoding step of n sequences takes on it. Times are shown,
// never judged, and are the processor's: what else runs on the machine then disturbs them less.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "infer/cpu/cpu.h"

namespace folio::experiments {

/// The two roofs of a roofline (Williams et al. 2009).
struct Roofs {
  double bytes_per_s = 0.0;          ///< read from memory
  double multiply_adds_per_s = 0.0;  ///< by the engine's product of matrices that stay in the cache
};

/// Reads `bytes` of memory, which should be many times the caches. Each roof is the best of several passes,
/// which take so many seconds together.
[[nodiscard]] Roofs measure_roofs(const infer::Cpu& cpu, size_t bytes, double seconds);

/// A model with random weights that no cache holds, or with `small` one that is quick to make. Its text is noise.
[[nodiscard]] core::StoredModel random_model(bool small);

struct StepTime {
  int64_t n_sequences = 0;
  double seconds = 0.0;        ///< of a step, the best of several
  double weight_bytes = 0.0;   ///< of a step
  double multiply_adds = 0.0;  ///< of a step, those of attention included
};

/// A step of each number of sequences, a token of each; for about so many seconds each. `cpu` has one thread.
[[nodiscard]] std::vector<StepTime> time_steps(infer::Cpu& cpu, const core::StoredModel& model,
                                               std::span<const int64_t> numbers, double seconds_each);

}  // namespace folio::experiments
