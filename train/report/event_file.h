// A TensorBoard event file: scalars by step. It is framed as TFRecord and holds TensorFlow's Event messages
// (tsl/protobuf/event.proto, summary.proto), of which six fields are enough.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "core/file_io.h"

namespace folio::train {

/// File names of event files begin with this.
inline constexpr std::string_view kEventFilePrefix = "events.out.tfevents.";

struct Scalar {
  std::string_view tag;  ///< "loss/train"
  double value;          ///< stored as a float
};

class EventFile {
 public:
  /// Opens run/events.out.tfevents.NNNNNN, the next number. It begins with a session start, on which TensorBoard drops
  /// what earlier files have of steps after `keep_up_to`. Those files stay as they are: a TensorBoard that runs has
  /// them open.
  EventFile(const std::filesystem::path& run, int64_t keep_up_to);

  /// Throws core::Error if it cannot be written.
  void append(int64_t step, std::span<const Scalar> scalars);

 private:
  void write_event(int64_t step, const std::string& content);

  core::OutputFile file_;
};

/// The checksum of RFC 3720, appendix B.4 (Castagnoli's polynomial).
[[nodiscard]] uint32_t crc32c(std::string_view bytes);

}  // namespace folio::train
