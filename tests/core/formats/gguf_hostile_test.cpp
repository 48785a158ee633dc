// Tests core/formats/gguf.h on damaged files: each gives a one-line Error, never a crash, a hang or a huge allocation.
#include <gtest/gtest.h>

#include "core/file_io.h"
#include "core/formats/gguf.h"
#include "tests/core/formats/stored_tensors.h"

namespace folio::core {
namespace {

using test::raw;
using test::TempDir;

std::string string(const std::string& s) { return raw<uint64_t>(s.size()) + s; }

struct RawTensor {
  std::string name = "w";
  std::vector<uint64_t> dims{16};  // in the file's order: fastest dimension first
  uint32_t type = 0;
  uint64_t offset = 0;
};

// The fields of a GGUF file, each of which a test can corrupt before the file is written.
struct RawGguf {
  std::string magic = "GGUF";
  uint32_t version = 3;
  std::vector<std::string> pairs;  // metadata: the serialized key, type and value of each pair
  std::vector<RawTensor> tensors;
  std::optional<uint64_t> n_tensors;
  std::optional<uint64_t> n_pairs;
  size_t alignment = 32;
  std::string data = std::string(64, 'd');

  [[nodiscard]] std::string bytes() const {
    std::string out = magic + raw(version) + raw<uint64_t>(n_tensors.value_or(tensors.size())) +
                      raw<uint64_t>(n_pairs.value_or(pairs.size()));
    for (const std::string& pair : pairs) out += pair;
    for (const RawTensor& t : tensors) {
      out += string(t.name) + raw<uint32_t>(static_cast<uint32_t>(t.dims.size()));
      for (const uint64_t d : t.dims) out += raw(d);
      out += raw(t.type) + raw(t.offset);
    }
    if (!tensors.empty()) out.resize((out.size() + alignment - 1) / alignment * alignment);
    return out + (tensors.empty() ? "" : data);
  }
};

std::string pair(const std::string& key, uint32_t type, const std::string& value) {
  return string(key) + raw(type) + value;
}

class GgufHostile : public ::testing::Test {
 protected:
  std::string refusal(const std::string& bytes) const {
    test::write_bytes(dir_ / "f.gguf", bytes);
    return test::error_of([&] { const GgufFile file(dir_ / "f.gguf"); });
  }
  void expect_refused(const RawGguf& file, const std::string& part) const {
    const std::string message = refusal(file.bytes());
    EXPECT_TRUE(test::contains(message, part));
    EXPECT_TRUE(test::contains(message, "f.gguf"));
  }
  [[nodiscard]] bool is_taken(const std::string& bytes) const {
    test::write_bytes(dir_ / "f.gguf", bytes);
    return test::taken<GgufFile>(dir_ / "f.gguf");
  }
  TempDir dir_;
};

// Returns a small file with numbers, strings and nested arrays as metadata. It ends with tensor data, so that every
// truncation removes something.
RawGguf a_bit_of_everything() {
  RawGguf file;
  file.pairs = {
      pair("general.architecture", 8, string("llama")),
      pair("u8", 0, raw<uint8_t>(1)),
      pair("b", 7, raw<uint8_t>(1)),
      pair("f", 6, raw(1.5F)),
      pair("d", 12, raw(2.5)),
      pair("tokens", 9, raw<uint32_t>(8) + raw<uint64_t>(3) + string("a") + string("") + string("bc")),
      pair("nested", 9,
           raw<uint32_t>(9) + raw<uint64_t>(2) + raw<uint32_t>(5) + raw<uint64_t>(1) + raw<int32_t>(-1) +
               raw<uint32_t>(7) + raw<uint64_t>(2) + raw<uint8_t>(0) + raw<uint8_t>(1)),
      pair("general.alignment", 4, raw<uint32_t>(16)),
  };
  file.alignment = 16;
  file.tensors = {{.name = "w", .dims = {4, 2}, .type = 0, .offset = 0},
                  {.name = "q", .dims = {32}, .type = 8, .offset = 32}};
  file.data = std::string(32 + 34, 'd');
  return file;
}

TEST_F(GgufHostile, RejectsEveryTruncation) {
  const std::string whole = a_bit_of_everything().bytes();
  ASSERT_TRUE(is_taken(whole));
  for (size_t size = 0; size < whole.size(); ++size) {
    ASSERT_FALSE(is_taken(whole.substr(0, size))) << size << " of " << whole.size() << " bytes";
  }
}

TEST_F(GgufHostile, SurvivesEverySingleByteChange) {
  const std::string whole = a_bit_of_everything().bytes();
  size_t n_refused = 0;
  for (size_t at = 0; at < whole.size() - 66; ++at) {
    for (const int change : {0x01, 0x02, 0x08, 0x20, 0x80, 0xFF}) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ change);
      n_refused += is_taken(damaged) ? 0 : 1;
    }
  }
  EXPECT_GT(n_refused, whole.size()) << "most of the header's bytes matter";
}

TEST_F(GgufHostile, RejectsOtherMagicAndVersions) {
  EXPECT_TRUE(test::contains(refusal("GGML" + std::string(100, '\0')), "not a GGUF file"));
  RawGguf file;
  for (const uint32_t version : {0U, 1U, 4U, 0x03000000U}) {
    file.version = version;
    expect_refused(file, "GGUF version " + std::to_string(version) + " is not supported");
  }
  file.version = 2;
  EXPECT_TRUE(is_taken(file.bytes()));
}

TEST_F(GgufHostile, RejectsCountsBeyondTheFile) {
  for (const uint64_t count : {uint64_t{3}, uint64_t{1} << 32U, uint64_t{1} << 59U, uint64_t{1} << 63U, UINT64_MAX,
                               UINT64_MAX / 32 + 2, UINT64_MAX / 13 + 2}) {
    RawGguf file = a_bit_of_everything();
    file.n_tensors = count;
    EXPECT_FALSE(is_taken(file.bytes())) << count;
    file = a_bit_of_everything();
    file.n_pairs = count + 6;
    EXPECT_FALSE(is_taken(file.bytes())) << count;
  }
}

TEST_F(GgufHostile, RejectsLengthsBeyondTheFile) {
  for (const uint64_t length :
       {uint64_t{1000}, uint64_t{1} << 40U, (uint64_t{1} << 61U) + 1, uint64_t{1} << 63U, UINT64_MAX, UINT64_MAX - 7}) {
    RawGguf file;
    file.pairs = {raw(length) + "key" + raw<uint32_t>(0) + std::string(50, '\1')};
    expect_refused(file, "a metadata key needs " + std::to_string(length) + " bytes");
    file.pairs = {pair("key", 8, raw(length) + std::string(50, 'x'))};
    expect_refused(file, "a string needs " + std::to_string(length) + " bytes");
    for (uint32_t type = 0; type <= 12; ++type) {
      file.pairs = {pair("key", 9, raw(type) + raw(length) + std::string(50, '\0'))};
      expect_refused(file, "an array of " + std::to_string(length) + " items does not fit in the file");
    }
  }
}

TEST_F(GgufHostile, RejectsUnknownTypes) {
  RawGguf file;
  for (const uint32_t type : {13U, 99U, 0x80000000U, UINT32_MAX}) {
    file.pairs = {pair("some.key", type, std::string(16, '\0'))};
    expect_refused(file, "key some.key has the unknown type " + std::to_string(type));
    file.pairs = {pair("some.key", 9, raw(type) + raw<uint64_t>(1) + std::string(16, '\0'))};
    expect_refused(file, "unknown array type " + std::to_string(type));
  }
  file.pairs.clear();
  for (const uint32_t type : {4U, 5U, 9U, 23U, 31U, 999U, UINT32_MAX}) {  // 23: IQ4_XS
    file.tensors = {{.type = type}};
    expect_refused(file, "tensor w has the unknown type " + std::to_string(type) + "; i-quants such as IQ4_XS");
  }
}

TEST_F(GgufHostile, RejectsBooleansOtherThanZeroAndOne) {
  RawGguf file;
  file.pairs = {pair("b", 7, raw<uint8_t>(2))};
  expect_refused(file, "a boolean is 2");
  file.pairs = {pair("b", 9, raw<uint32_t>(7) + raw<uint64_t>(2) + raw<uint8_t>(1) + raw<uint8_t>(255))};
  expect_refused(file, "a boolean is 255");
}

TEST_F(GgufHostile, RejectsDeepNesting) {
  const auto nested = [](int depth) {
    std::string value;
    for (int i = 1; i < depth; ++i) value += raw<uint32_t>(9) + raw<uint64_t>(1);
    return pair("a", 9, value + raw<uint32_t>(0) + raw<uint64_t>(1) + raw<uint8_t>(5));
  };
  RawGguf file;
  file.pairs = {nested(4)};
  EXPECT_TRUE(is_taken(file.bytes()));
  for (const int depth : {5, 100, 100'000}) {
    file.pairs = {nested(depth)};
    expect_refused(file, "nested deeper than 4");
  }
}

TEST_F(GgufHostile, RejectsRepeatedKeysAndTensors) {
  RawGguf file;
  file.pairs = {pair("k", 0, "a"), pair("j", 0, "a"), pair("k", 7, "\1")};
  expect_refused(file, "key k occurs twice");
  file.pairs.clear();
  file.tensors = {{.name = "w", .dims = {8}}, {.name = "w", .dims = {8}, .offset = 32}};
  expect_refused(file, "tensor w occurs twice");
}

TEST_F(GgufHostile, RejectsNonPositiveDimensions) {
  RawGguf file;
  for (const int64_t wrong : {int64_t{0}, int64_t{-1}, INT64_MIN}) {
    file.tensors = {{.dims = {4, static_cast<uint64_t>(wrong)}}};
    expect_refused(file, "tensor w has a dimension of " + std::to_string(wrong));
  }
  file.tensors = {{.dims = {}}};
  file.data = std::string(128, 'd');
  expect_refused(file, "tensor w has 0 dimensions");
  file.tensors = {{.dims = {1, 1, 1, 1, 1}}};
  expect_refused(file, "tensor w has 5 dimensions");
}

// TensorBytes.* in tensor_view_test.cpp test which shapes have a size.
TEST_F(GgufHostile, RejectsShapesWithoutAValidSize) {
  RawGguf file;
  file.tensors = {{.dims = {uint64_t{1} << 32U, uint64_t{1} << 32U}}};
  expect_refused(file, "tensor w has shape [4294967296, 4294967296], which is not valid for type F32");
  file.tensors = {{.dims = {16, 32}, .type = 8}};
  expect_refused(file, "tensor w has shape [32, 16], which is not valid for type Q8_0");
}

TEST_F(GgufHostile, RejectsDataOutsideTheFile) {
  RawGguf file;
  for (const uint64_t offset :
       {uint64_t{32}, uint64_t{64}, uint64_t{1} << 40U, UINT64_MAX - 31, UINT64_MAX - 95, uint64_t{1} << 63U}) {
    file.tensors = {{.offset = offset}};
    expect_refused(file, "tensor w needs 64 bytes at offset " + std::to_string(offset));
  }
  file.tensors = {{.dims = {17}}};
  expect_refused(file, "tensor w needs 68 bytes at offset 0");
}

TEST_F(GgufHostile, RejectsMisalignedData) {
  RawGguf file;
  for (const uint64_t offset : {1U, 4U, 16U, 31U}) {
    file.tensors = {{.dims = {1}, .offset = offset}};
    expect_refused(file, "which is not a multiple of the alignment 32");
  }
  file.pairs = {pair("general.alignment", 4, raw<uint32_t>(64))};
  file.tensors = {{.dims = {1}, .offset = 32}};
  expect_refused(file, "which is not a multiple of the alignment 64");
}

TEST_F(GgufHostile, RejectsOverlappingTensors) {
  RawGguf file;
  file.data = std::string(128, 'd');
  file.tensors = {{.name = "a", .dims = {16}, .offset = 32}, {.name = "b", .dims = {9}, .offset = 0}};
  expect_refused(file, "overlap");
  file.tensors = {{.name = "a", .dims = {8}, .offset = 0}, {.name = "b", .dims = {8}, .offset = 0}};
  expect_refused(file, "overlap");
  file.tensors = {{.name = "a", .dims = {32}, .offset = 0}, {.name = "b", .dims = {8}, .offset = 64}};
  expect_refused(file, "overlap");
  file.tensors = {{.name = "a", .dims = {8}, .offset = 96}, {.name = "b", .dims = {8}, .offset = 0}};
  EXPECT_TRUE(is_taken(file.bytes())) << "any order, and holes, are fine";
}

TEST_F(GgufHostile, RejectsAlignmentsThatAreNotPowersOfTwo) {
  RawGguf file;
  file.tensors = {{}};
  for (const uint32_t wrong : {0U, 3U, 24U, 33U, 1U << 31U, UINT32_MAX}) {
    file.pairs = {pair("general.alignment", 4, raw(wrong))};
    expect_refused(file, "general.alignment is " + std::to_string(wrong));
  }
  file.pairs = {pair("general.alignment", 11, raw<int64_t>(-32))};
  expect_refused(file, "general.alignment is -32");
  file.pairs = {pair("general.alignment", 8, string("32"))};
  expect_refused(file, "general.alignment is not an integer");
  for (const uint32_t right : {8U, 32U, 64U, 4096U}) {
    file.pairs = {pair("general.alignment", 4, raw(right))};
    file.alignment = right;
    EXPECT_TRUE(is_taken(file.bytes())) << right;
  }
}

TEST_F(GgufHostile, EscapesHostileNamesInErrors) {
  RawGguf file;
  const std::string name = "\x1B[31m\n\xFF" + std::string(5000, 'x');
  file.tensors = {{.name = name, .type = 999}};
  const std::string message = refusal(file.bytes());
  EXPECT_TRUE(test::contains(message, "\\x1B[31m\\x0A\\xFF"));
  EXPECT_LT(message.size(), 1000U);
  file.tensors.clear();
  file.pairs = {pair(name, 99, "")};
  EXPECT_LT(refusal(file.bytes()).size(), 1000U);
}

}  // namespace
}  // namespace folio::core
