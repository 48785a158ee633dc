// Measurements of a run's steps: tables, and a timeline.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "train/report/memory_use.h"
#include "train/run/trainer.h"

namespace folio::train {

/// Where the time of a step goes: trains for some steps to warm up, then for `steps`, then for as many while LibTorch's
/// profiler measures the operations' own times. In milliseconds, shares of the step, and of the matrix peak
/// (matrix_peak.h). CPU only: a GPU works on after an operation's end.
[[nodiscard]] std::string profile_steps(Trainer& trainer, int64_t steps);

/// The bytes that each rank holds and sends: measured, and by formulas (train/parallel/costs.h). Trains for some steps.
/// `memory` has counted since before the trainer was made. A collective; the first rank gets the table, the others an
/// empty string.
[[nodiscard]] std::string measure_rank_costs(Trainer& trainer, MemoryUse& memory);

/// The timeline of some steps by LibTorch's profiler, Kineto, as a file for Perfetto and Chrome's about:tracing: each
/// operation of LibTorch, and on threads of their own transfers to other ranks.
class StepTrace {
 public:
  static constexpr int64_t kFirst = 4, kLast = 6;  ///< the steps of this process that are recorded

  /// All ranks make the same calls, and the first one writes the file, which has a process for each rank. Throws
  /// core::Error where its folder does not exist.
  StepTrace(std::filesystem::path file, parallel::World& world);
  ~StepTrace();
  StepTrace(const StepTrace&) = delete;
  StepTrace& operator=(const StepTrace&) = delete;

  void step_begins();
  /// Writes the file after kLast. Throws core::Error where it can't be written.
  void step_ended();
  [[nodiscard]] bool is_written() const { return n_steps_ >= kLast; }

 private:
  std::filesystem::path file_;
  parallel::World& world_;
  int64_t n_steps_ = 0;
  bool recording_ = false;
};

}  // namespace folio::train
