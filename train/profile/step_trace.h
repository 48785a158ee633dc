// The timeline of some steps, as a file that Perfetto and Chrome's about:tracing draw: each operation of LibTorch, and
// on threads of their own what was under way to other ranks. LibTorch's profiler, Kineto, watches.
#pragma once

#include <cstdint>
#include <filesystem>

#include "train/parallel/world.h"

namespace folio::train {

class StepTrace {
 public:
  static constexpr int64_t kFirst = 4, kLast = 6;  ///< the steps of this process that are recorded

  /// Nothing is recorded before kFirst. Null: a process alone; else all ranks make the same calls, and the file, which
  /// the first one writes, has a process for each rank. Throws core::Error where its folder does not exist.
  StepTrace(std::filesystem::path file, parallel::World* world);
  ~StepTrace();
  StepTrace(const StepTrace&) = delete;
  StepTrace& operator=(const StepTrace&) = delete;

  void step_begins();
  /// After kLast it writes the file. Throws core::Error where it can't be written.
  void step_ended();
  [[nodiscard]] bool is_written() const { return n_steps_ >= kLast; }

 private:
  std::filesystem::path file_;
  parallel::World* world_;
  int64_t n_steps_ = 0;
  bool recording_ = false;
};

}  // namespace folio::train
