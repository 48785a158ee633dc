#include "train/report/event_file.h"

#include <fmt/format.h>

#include <bit>
#include <chrono>

#include "core/file_status.h"

namespace folio::train {
namespace {

namespace fs = std::filesystem;

// Returns the bytes of a value; the machine's byte order is little-endian.
template <typename T>
std::string little_endian(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

std::string varint(uint64_t value) {
  std::string text;
  for (; value >= 0x80U; value >>= 7U) text += static_cast<char>((value & 0x7FU) | 0x80U);
  return text + static_cast<char>(value);
}

// Wire types of Protocol Buffers. A field is a key, number * 8 + wire type, and its encoded value.
enum WireType { kVarint = 0, kEightBytes = 1, kLengthPrefixed = 2, kFourBytes = 5 };
std::string field(uint64_t number, WireType type, const std::string& value) {
  return varint(number * 8 + type) + (type == kLengthPrefixed ? varint(value.size()) : "") + value;
}

// Returns the CRC-32C checksum (Castagnoli polynomial; RFC 3720, appendix B.4).
uint32_t crc32c(std::string_view bytes) {
  uint32_t crc = 0xFFFFFFFFU;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1U ^ (crc % 2 == 1 ? 0x82F63B78U : 0U);
  }
  return ~crc;
}

// Returns a TFRecord: length, masked checksum of the length, data, masked checksum of the data.
std::string record(const std::string& data) {
  const auto masked = [](std::string_view bytes) { return little_endian(std::rotr(crc32c(bytes), 15) + 0xA282EAD8U); };
  const std::string length = little_endian(uint64_t{data.size()});
  return length + masked(length) + data + masked(data);
}

// Returns the next free file name. It ends in a number instead of TensorFlow's time stamp in seconds: TensorBoard reads
// files in alphabetical order, and two files could have the same time stamp.
fs::path next_file(const fs::path& run) {
  for (int n = 0;; ++n) {
    const fs::path path = run / fmt::format("{}{:06}", kEventFilePrefix, n);
    if (!core::path_exists(path)) return path;
  }
}

}  // namespace

EventFile::EventFile(const fs::path& run, int64_t keep_up_to) : file_(next_file(run)) {
  write_event(0, field(3, kLengthPrefixed, "brain.Event:2"));  // file_version
  // session_log.status: START. From earlier files, TensorBoard drops this event's step and all later ones.
  write_event(keep_up_to + 1, field(7, kLengthPrefixed, field(1, kVarint, varint(1))));
  file_.flush();
}

void EventFile::append(int64_t step, std::span<const Scalar> scalars) {
  std::string summary;
  for (const Scalar& scalar : scalars) {
    const std::string value = field(1, kLengthPrefixed, std::string(scalar.tag)) +  // Summary.Value: tag, simple_value
                              field(2, kFourBytes, little_endian(static_cast<float>(scalar.value)));
    summary += field(1, kLengthPrefixed, value);
  }
  write_event(step, field(5, kLengthPrefixed, summary));
  file_.flush();
}

void EventFile::write_event(int64_t step, const std::string& content) {
  const double now = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  file_.write(record(field(1, kEightBytes, little_endian(now)) +
                     field(2, kVarint, varint(static_cast<uint64_t>(step))) + content));
}

}  // namespace folio::train
