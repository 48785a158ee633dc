// The metrics of a run: log.jsonl, one JSON object a line; the same as events for TensorBoard; and loss.svg.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/file_io.h"
#include "train/report/event_file.h"

namespace folio::train {

struct LogEntry {
  int64_t step = 0;    ///< completed steps
  int64_t tokens = 0;  ///< tokens in these steps
  double loss = 0.0;   ///< of the last step, in nats
  double lr = 0.0;
  double grad_norm = 0.0;  ///< before clipping
  double tokens_per_s = 0.0;
  std::optional<double> peak_share;   ///< of the matrix peak, if that was measured
  std::optional<double> train_loss;   ///< if this step evaluated random batches
  std::optional<double> val_loss;     ///< if this step evaluated
  std::optional<double> expert_load;  ///< if this step evaluated experts: balance.h's largest_load()
  std::optional<std::string> sample;  ///< what the model wrote, if this step evaluated
};

class RunLog {
 public:
  /// Opens run/log.jsonl to append, after removing the entries of steps after `keep_up_to`: a resumed run writes them
  /// again. The events go to a new file, which revokes those steps.
  RunLog(const std::filesystem::path& run, int64_t keep_up_to);

  /// Throws core::Error if the line cannot be written. If the process is killed, its last line may be incomplete.
  void append(const LogEntry& entry);

  /// Syncs the file to disk. A checkpoint needs the lines up to its step, also after a power failure.
  void sync() { file_.sync(); }

  /// Draws run/loss.svg, with a line at the loss `baseline` (0: without) that has this name.
  void draw(double baseline, const std::string& name) const;

 private:
  std::filesystem::path run_;
  std::vector<LogEntry> entries_;
  core::OutputFile file_;
  EventFile events_;
};

/// The entries of a log. Incomplete and unknown lines are skipped.
[[nodiscard]] std::vector<LogEntry> read_log(const std::filesystem::path& path);

}  // namespace folio::train
