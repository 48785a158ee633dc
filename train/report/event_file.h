// Writes TensorBoard event files with scalars by step: TFRecord framing around TensorFlow's Event messages
// (tsl/protobuf/event.proto, summary.proto). Only the fields that scalars need are encoded.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "core/file_io.h"

namespace folio::train {

/// Prefix of event file names, by which TensorBoard recognizes them.
inline constexpr std::string_view kEventFilePrefix = "events.out.tfevents.";

struct Scalar {
  std::string_view tag;  ///< name in TensorBoard, such as "loss/train"
  double value;          ///< stored as a float
};

class EventFile {
 public:
  /// Opens run/events.out.tfevents.NNNNNN with the next free number and writes a session start, which makes TensorBoard
  /// drop steps after `keep_up_to` from earlier files. Doesn't modify those files: TensorBoard may have them open.
  EventFile(const std::filesystem::path& run, int64_t keep_up_to);

  /// Appends the scalars of a step. Throws core::Error if they cannot be written.
  void append(int64_t step, std::span<const Scalar> scalars);

 private:
  void write_event(int64_t step, const std::string& content);

  core::OutputFile file_;
};

}  // namespace folio::train
