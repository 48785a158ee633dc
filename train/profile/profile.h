// Profiles of a run's steps: tables of time and memory, and a timeline.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "train/report/memory_use.h"
#include "train/run/trainer.h"

namespace folio::train {

/// Returns the FLOPs of attention in one token's forward and backward pass, in windows of `window` tokens. Counts only
/// the keys that the mask allows, and the MTP module's block.
[[nodiscard]] double attention_operations(const core::ModelConfig& config, int64_t window);

/// Returns a table of the parts of a step: milliseconds, percent of the step's time, and percent of the matrix peak
/// (matrix_peak.h). Trains some warm-up steps, then `steps` unprofiled and `steps` while recording the self times of
/// operations. CPU only, since GPU operations are asynchronous.
[[nodiscard]] std::string profile_steps(Trainer& trainer, int64_t steps);

/// Returns a table of the bytes that each rank stores and sends, measured and as predicted by
/// train/parallel/costs.h. Trains for some steps. `memory` must have been created before the trainer. Collective; rank
/// 0 gets the table, other ranks an empty string.
[[nodiscard]] std::string measure_rank_costs(Trainer& trainer, MemoryUse& memory);

/// Records a timeline of some steps with LibTorch's profiler, Kineto, for Perfetto or Chrome's about:tracing. It shows
/// LibTorch operations, and transfers to other ranks on separate threads.
class StepTrace {
 public:
  static constexpr int64_t kFirst = 4, kLast = 6;  ///< first and last recorded step, counted from 1 in this process

  /// All ranks must make the same calls. Rank 0 writes the file, in which each rank is one process. Throws core::Error
  /// if the file's folder does not exist.
  StepTrace(std::filesystem::path file, parallel::World& world);
  ~StepTrace();
  StepTrace(const StepTrace&) = delete;
  StepTrace& operator=(const StepTrace&) = delete;

  void step_begins();
  /// Must be called after each step. After step kLast, writes the file. Throws core::Error if it cannot be written.
  void step_ended();
  [[nodiscard]] bool is_written() const { return n_steps_ >= kLast; }

 private:
  std::filesystem::path file_;
  parallel::World& world_;
  int64_t n_steps_ = 0;
  bool recording_ = false;
};

}  // namespace folio::train
