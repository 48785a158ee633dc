// A TensorBoard event file: numbers by step, which TensorBoard draws while the run goes on. It is framed as TFRecord
// and holds TensorFlow's Event messages (tsl/protobuf/event.proto, summary.proto), of which six fields are enough.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>

#include "core/file_io.h"

namespace folio::train {

struct Scalar {
  std::string_view tag;  ///< "loss/train"
  double value;          ///< stored as a float
};

class EventFile {
 public:
  /// Opens run/events.out.tfevents.NNNNNN, the next number. It begins with TensorBoard's sign of a restart: whatever
  /// earlier files say of steps after `keep_up_to` counts no longer. They stay as they are, since a TensorBoard that
  /// runs has them open.
  EventFile(const std::filesystem::path& run, int64_t keep_up_to);

  /// Throws core::Error if it cannot be written.
  void append(int64_t step, std::span<const Scalar> scalars);

 private:
  void write_event(int64_t step, std::string_view fields);

  std::unique_ptr<core::OutputFile> file_;
};

/// The names of such files begin with this.
inline constexpr std::string_view kEventFilePrefix = "events.out.tfevents.";

/// The checksum of RFC 3720, appendix B.4 (Castagnoli's polynomial).
[[nodiscard]] uint32_t crc32c(std::string_view bytes);

}  // namespace folio::train
