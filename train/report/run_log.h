// Logs a run's metrics to log.jsonl (one JSON object per line), to TensorBoard event files and to loss.svg.
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
  int64_t step = 0;                ///< completed steps
  int64_t tokens = 0;              ///< tokens processed in these steps
  double loss = 0.0;               ///< loss of the last step, in nats
  std::optional<double> mtp_loss;  ///< loss of the MTP module (--mtp) in the last step
  double lr = 0.0;
  double grad_norm = 0.0;  ///< global gradient norm before clipping
  double tokens_per_s = 0.0;
  std::optional<double> peak_share;   ///< training's FLOP/s / matrix peak (matrix_peak.h), if measured
  std::optional<double> train_loss;   ///< loss of random training batches, if evaluated
  std::optional<double> val_loss;     ///< validation loss, if evaluated
  std::optional<double> expert_load;  ///< rows of the most loaded expert / mean over experts (balance.h), if evaluated
  std::optional<std::string> sample;  ///< sample completion, if evaluated

  bool operator==(const LogEntry&) const = default;
};

class RunLog {
 public:
  /// Opens run/log.jsonl for appending. Removes lines of steps after `keep_up_to`, which a resumed run writes again.
  /// Starts a new event file, which makes TensorBoard drop those steps, too.
  RunLog(const std::filesystem::path& run, int64_t keep_up_to);

  /// Appends `entry` to log.jsonl, as a line, and to the event file. Throws core::Error if that fails. A killed process
  /// may leave an incomplete last line.
  void append(const LogEntry& entry);

  /// Syncs the file to disk, so that lines up to a checkpoint's step survive a power failure.
  void sync() { file_.sync(); }

  /// Draws run/loss.svg, with a reference line called `name` at the loss `baseline` (0: none).
  void draw(double baseline, const std::string& name) const;

 private:
  std::filesystem::path run_;
  std::vector<LogEntry> entries_;
  core::OutputFile file_;
  EventFile events_;
};

/// Reads the entries of a log.jsonl file, one per line. Skips lines that are incomplete or not an entry. Returns no
/// entries if the file cannot be read.
[[nodiscard]] std::vector<LogEntry> read_log(const std::filesystem::path& path);

}  // namespace folio::train
