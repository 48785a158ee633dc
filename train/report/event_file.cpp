#include "train/report/event_file.h"

#include <fmt/format.h>

#include <bit>
#include <chrono>
#include <string>

#include "core/file_status.h"

namespace folio::train {
namespace {

namespace fs = std::filesystem;

std::string little_endian(uint64_t value, size_t bytes) {
  std::string text;
  for (size_t i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i) & 0xFFU);
  return text;
}

// Protocol Buffers: a field is a key, number * 8 + wire type, and a value. Types: 0 varint, 1 eight bytes, 2 a length
// and so many bytes, 5 four bytes.
std::string varint(uint64_t value) {
  std::string text;
  for (; value >= 0x80U; value >>= 7U) text += static_cast<char>((value & 0x7FU) | 0x80U);
  return text + static_cast<char>(value);
}

std::string varint_field(uint64_t number, uint64_t value) { return varint(number * 8) + varint(value); }

std::string double_field(uint64_t number, double value) {
  return varint(number * 8 + 1) + little_endian(std::bit_cast<uint64_t>(value), 8);
}

std::string bytes_field(uint64_t number, std::string_view bytes) {
  return varint(number * 8 + 2) + varint(bytes.size()) + std::string(bytes);
}

std::string float_field(uint64_t number, double value) {
  return varint(number * 8 + 5) + little_endian(std::bit_cast<uint32_t>(static_cast<float>(value)), 4);
}

// TFRecord: the length, its checksum, the data, their checksum. Checksums are masked, since data may hold checksums.
std::string record(std::string_view data) {
  const auto masked = [](std::string_view bytes) {
    return little_endian(std::rotr(crc32c(bytes), 15) + 0xA282EAD8U, 4);
  };
  const std::string length = little_endian(data.size(), 8);
  return length + masked(length) + std::string(data) + masked(data);
}

// Numbered, so that names sort as the processes came, also two in the same second.
fs::path next_file(const fs::path& run) {
  for (int n = 0;; ++n) {
    const fs::path path = run / fmt::format("{}{:06}", kEventFilePrefix, n);
    if (!core::path_exists(path)) return path;
  }
}

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  uint32_t crc = 0xFFFFFFFFU;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1U ^ (crc % 2 == 1 ? 0x82F63B78U : 0U);
  }
  return ~crc;
}

EventFile::EventFile(const fs::path& run, int64_t keep_up_to)
    : file_(std::make_unique<core::OutputFile>(next_file(run))) {
  constexpr uint64_t kStart = 1;
  write_event(0, bytes_field(3, "brain.Event:2"));                       // file_version
  write_event(keep_up_to + 1, bytes_field(7, varint_field(1, kStart)));  // session_log.status
  file_->flush();
}

void EventFile::append(int64_t step, std::span<const Scalar> scalars) {
  std::string summary;
  for (const Scalar& scalar : scalars) {
    summary += bytes_field(1, bytes_field(1, scalar.tag) + float_field(2, scalar.value));  // value: tag, simple_value
  }
  write_event(step, bytes_field(5, summary));
  file_->flush();
}

void EventFile::write_event(int64_t step, std::string_view fields) {
  const double now = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  std::string event = double_field(1, now) + varint_field(2, static_cast<uint64_t>(step));
  event += fields;
  file_->write(record(event));
}

}  // namespace folio::train
