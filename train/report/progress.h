// Shows a run's progress on stdout: a bar on a terminal, plain lines otherwise.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "train/config/choices.h"
#include "train/report/run_log.h"

namespace folio::train {

class Progress {
 public:
  /// Shows a run from `first_step` to `last_step`. LogStyle::Epoch prints lines `Epoch | Loss | Time | ETA`.
  Progress(int64_t first_step, int64_t last_step, LogStyle style);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void set_last_step(int64_t last_step) { last_step_ = last_step; }
  void show(const LogEntry& entry);
  /// Prints a line above the bar.
  void print(const std::string& line);

 private:
  void clear_bar();

  int64_t first_step_;
  int64_t last_step_;
  bool epochs_;
  bool terminal_;
  bool bar_shown_ = false;
  std::optional<double> val_loss_;  ///< latest validation loss
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point previous_ = start_;
};

}  // namespace folio::train
