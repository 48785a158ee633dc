// Tests the bytes of TensorBoard event files. tests/apps/tensorboard_test.py reads such files with TensorBoard.
#include "train/report/event_file.h"

#include <gtest/gtest.h>

#include "tests/core/support.h"

namespace folio::train {
namespace {

using core::test::read_bytes;
using core::test::TempDir;

TEST(EventFile, ChecksumMatchesRfc3720) {
  EXPECT_EQ(crc32c(""), 0U);
  EXPECT_EQ(crc32c("123456789"), 0xE3069283U);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAU);  // test vector of RFC 3720, appendix B.4
  EXPECT_EQ(crc32c(std::string(32, '\xFF')), 0x62A8AB43U);
}

// Returns the bytes that follow the wall time in the Event of `record`. A record has a length (8 bytes), a checksum
// (4), the Event and another checksum (4). The Event begins with the wall time (1 byte for its key, 8 for its value).
std::string after_the_time(const std::string& record) {
  return record.substr(8 + 4 + 9, record.size() - 8 - 4 - 9 - 4);
}

TEST(EventFile, HasTheProtocolsFields) {
  const TempDir run;
  {
    EventFile events(run.path(), 299);
    events.append(300, std::vector<Scalar>{{"lr", 0.5}});
  }
  const std::string bytes = read_bytes(run / "events.out.tfevents.000000");
  std::vector<std::string> fields;
  for (size_t at = 0; at < bytes.size();) {
    const size_t size = 8 + 4 + static_cast<unsigned char>(bytes[at]) + 4;  // first byte of the length; the rest are 0
    fields.push_back(after_the_time(bytes.substr(at, size)));
    at += size;
  }
  using namespace std::string_literals;
  EXPECT_EQ(fields, (std::vector<std::string>{
                        "\x10\x00\x1A\x0D"s + "brain.Event:2",     // step 0, file_version
                        "\x10\xAC\x02\x3A\x02\x08\x01"s,           // step 300, session_log {status: START}
                        "\x10\xAC\x02\x2A\x0B"                     // step 300, summary
                        "\x0A\x09\x0A\x02lr\x15\x00\x00\x00\x3F"s  // {value {tag: "lr", simple_value: 0.5}}
                    }));
}

TEST(EventFile, EachProcessWritesItsOwnFile) {
  const TempDir run;
  { EventFile events(run.path(), 0); }
  const std::string first = read_bytes(run / "events.out.tfevents.000000");
  { EventFile events(run.path(), 5); }
  EXPECT_EQ(read_bytes(run / "events.out.tfevents.000000"), first);
  EXPECT_FALSE(read_bytes(run / "events.out.tfevents.000001").empty());
}

}  // namespace
}  // namespace folio::train
