// A run's numbers: log.jsonl, one JSON object a line, and loss.svg, drawn from it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "core/file_io.h"

namespace folio::train {

struct LogEntry {
  int64_t step = 0;    ///< steps that are done
  int64_t tokens = 0;  ///< tokens that they saw
  double loss = 0.0;   ///< of the last of them, nats
  double lr = 0.0;
  double grad_norm = 0.0;  ///< before clipping
  double tokens_per_s = 0.0;
  std::optional<double> train_loss;  ///< on evaluations over random batches
  std::optional<double> val_loss;    ///< on evaluations
};

class RunLog {
 public:
  /// Opens run/log.jsonl to append. Entries after `keep_up_to` are cut off first: a resumed run writes them anew.
  RunLog(const std::filesystem::path& run, int64_t keep_up_to);

  /// Throws core::Error if the line cannot be written. A killed process's lines stand; one may be torn.
  void append(const LogEntry& entry);

  /// Makes the lines durable, as a checkpoint is: what it keeps of the log must outlive the power, too.
  void sync() { file_->sync(); }

  /// Draws run/loss.svg; `baseline` is the 5-gram's loss.
  void draw(double baseline) const;

 private:
  std::filesystem::path run_;
  std::vector<LogEntry> entries_;
  std::unique_ptr<core::OutputFile> file_;
};

/// The lines of a log; unfinished or foreign lines are left out.
[[nodiscard]] std::vector<LogEntry> read_log(const std::filesystem::path& path);

}  // namespace folio::train
