// Tests core/formats/safetensors.h: tensors are aligned, and a damaged file gives a one-line error.
// formats_oracle_test.py compares files in both directions with the safetensors package.
#include "core/formats/safetensors.h"

#include <gtest/gtest.h>

#include "tests/core/formats/stored_tensors.h"

namespace folio::core {
namespace {

using test::raw;
using test::Stored;
using test::stored;
using test::TempDir;
using test::views_of;

std::vector<Stored> tensors_of_every_type() {
  return {stored("z", DType::F32, {3, 5}), stored("a.b", DType::F16, {7}),   stored("bf16", DType::BF16, {2, 3, 5}),
          stored("i8", DType::I8, {13}),   stored("u8", DType::U8, {1}),     stored("i16", DType::I16, {1, 1, 1, 1, 3}),
          stored("i32", DType::I32, {16}), stored("i64", DType::I64, {2}),   stored("f64", DType::F64, {3}),
          stored("none", DType::F32, {0}), stored("scalar", DType::F32, {}), stored("é\"\n", DType::F32, {4, 0})};
}

std::string file_of(const std::string& header, const std::string& data) {
  return raw<uint64_t>(header.size()) + header + data;
}

TEST(Safetensors, TensorsAreInDataOrder) {
  const TempDir dir;
  const std::vector<Stored> tensors{stored("z", DType::F32, {16}), stored("a", DType::F32, {32}),
                                    stored("m", DType::F32, {16})};
  write_safetensors(dir / "f", views_of(tensors));
  const SafetensorsFile file(dir / "f");
  ASSERT_EQ(file.tensors().size(), 3U);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(file.tensors()[i].name, tensors[i].name);
}

TEST(Safetensors, AlignsTensorsTo64Bytes) {
  const TempDir dir;
  const auto tensors = tensors_of_every_type();
  write_safetensors(dir / "f", views_of(tensors));
  const SafetensorsFile file(dir / "f");
  for (const Stored& t : tensors) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(file.find_tensor(t.name)->bytes.data()) % 64, 0U) << t.name;
  }
}

TEST(Safetensors, AlignedTensorsNeedNoPadding) {
  const TempDir dir;
  const std::vector<Stored> tensors{stored("a", DType::F32, {16, 3}), stored("b", DType::F16, {32}),
                                    stored("last", DType::I8, {5})};
  write_safetensors(dir / "f", views_of(tensors));
  EXPECT_EQ(SafetensorsFile(dir / "f").tensors().size(), 3U);
}

TEST(Safetensors, AcceptsAFileWithoutTensors) {
  const TempDir dir;
  write_safetensors(dir / "f", {});
  EXPECT_TRUE(SafetensorsFile(dir / "f").tensors().empty());
  test::write_bytes(dir / "g", file_of("{}", ""));
  EXPECT_TRUE(SafetensorsFile(dir / "g").tensors().empty());
}

TEST(Safetensors, WriterRejectsInputTheReaderWouldReject) {
  const TempDir dir;
  const Stored w = stored("w", DType::F32, {4});
  TensorView cut = w.view();
  cut.shape = {5};
  EXPECT_ERROR(write_safetensors(dir / "f", {cut}), "w");
  EXPECT_ERROR(write_safetensors(dir / "f", {w.view(), w.view()}), "w");
  EXPECT_ERROR(write_safetensors(dir / "f", {stored("q", DType::Q8_0, {32}).view()}), "q");
  EXPECT_ERROR(write_safetensors(dir / "f", {stored("__metadata__", DType::F32, {1}).view()}), "__metadata__");
  EXPECT_ERROR(write_safetensors(dir / "f", {stored("\xFF", DType::F32, {1}).view()}), "not UTF-8");
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
}

class SafetensorsHostile : public ::testing::Test {
 protected:
  [[nodiscard]] bool is_taken(const std::string& bytes) const {
    test::write_bytes(dir_ / "f.st", bytes);
    return test::taken<SafetensorsFile>(dir_ / "f.st");
  }
  void expect_refused(const std::string& bytes, const std::string& part) const {
    test::write_bytes(dir_ / "f.st", bytes);
    test::expect_error([&] { const SafetensorsFile file(dir_ / "f.st"); }, {part, (dir_ / "f.st").string()});
  }
  TempDir dir_;
};

const std::string kSound = R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},)"
                           R"("b":{"dtype":"U8","shape":[3],"data_offsets":[16,19]}})";

TEST_F(SafetensorsHostile, RejectsBytesOutsideTensors) {
  EXPECT_TRUE(is_taken(file_of(kSound + "    ", std::string(19, 'd'))));
  expect_refused(file_of(kSound, std::string(20, 'd')), "byte");
  expect_refused(file_of("{}", "x"), "byte");
  expect_refused(file_of(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})", "ddd"), "byte");
  expect_refused(file_of(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                         R"("b":{"dtype":"U8","shape":[1],"data_offsets":[3,4]}})",
                         "dddd"),
                 "byte");
}

TEST_F(SafetensorsHostile, SurvivesEverySingleByteChange) {
  const std::string whole = file_of(kSound, std::string(19, 'd'));
  size_t n_refused = 0;
  for (size_t at = 0; at < whole.size() - 19; ++at) {
    for (const int change : {0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80, 0xFF}) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ change);
      n_refused += is_taken(damaged) ? 0 : 1;
    }
  }
  EXPECT_GT(n_refused, whole.size());
}

TEST_F(SafetensorsHostile, RejectsHeadersBeyondTheFile) {
  for (const uint64_t size :
       {uint64_t{3}, uint64_t{100'000'001}, uint64_t{1} << 40U, uint64_t{1} << 63U, UINT64_MAX, UINT64_MAX - 7}) {
    expect_refused(raw(size) + "{}", "does not fit in the file");
  }
  expect_refused("short", "too short");
  expect_refused(raw<uint64_t>(0), "not valid JSON");
}

TEST_F(SafetensorsHostile, RejectsNonObjects) {
  for (const char* header : {"[]", "3"}) expect_refused(file_of(header, ""), "not a JSON object");
  expect_refused(file_of("{", ""), "not valid JSON");
}

TEST_F(SafetensorsHostile, RejectsDeepNestingAndRepeatedKeys) {
  expect_refused(file_of(std::string(100'000, '['), ""), "nested deeper");
  expect_refused(file_of(R"({"a":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "d"), "occurs twice");
}

TEST_F(SafetensorsHostile, RejectsIncompleteEntries) {
  for (const char* entry :
       {"3", "null", "[]", "{}", R"({"shape":[1],"data_offsets":[0,1]})", R"({"dtype":"U8","data_offsets":[0,1]})",
        R"({"dtype":"U8","shape":[1]})", R"({"dtype":3,"shape":[1],"data_offsets":[0,1]})",
        R"({"dtype":"U8","shape":1,"data_offsets":[0,1]})", R"({"dtype":"U8","shape":[1],"data_offsets":1})",
        R"({"dtype":"U8","shape":[1],"data_offsets":[0]})", R"({"dtype":"U8","shape":[1],"data_offsets":[0,1,1]})"}) {
    expect_refused(file_of(R"({"name":)" + std::string(entry) + "}", "d"), "tensor name");
  }
}

TEST_F(SafetensorsHostile, RejectsNegativeFractionalAndOverflowingNumbers) {
  const auto entry = [](const std::string& dtype, const std::string& shape, const std::string& offsets) {
    return file_of(R"({"name":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}",
                   "dddddddd");
  };
  EXPECT_TRUE(is_taken(entry("F32", "[2]", "[0,8]")));
  EXPECT_TRUE(is_taken(entry("F64", "[]", "[0,8]")));
  for (const char* shape :
       {"[-2]", "[2.0]", "[\"2\"]", "[true]", "[null]", "[[2]]", "[18446744073709551615]", "[9223372036854775808]",
        "[1e300]", "[4611686018427387906]", "[4294967296,4294967296,2]", "[3]", "[1]", "[2,0]", "[]"}) {
    expect_refused(entry("F32", shape, "[0,8]"), "tensor name");
  }
  for (const char* offsets : {"[-8,0]", "[0.0,8]", "[8,0]", "[0,9]", "[8,16]", "[1,9]", "[0,\"8\"]",
                              "[18446744073709551608,0]", "[18446744073709551615,18446744073709551615]", "[0,4]"}) {
    expect_refused(entry("F32", "[2]", offsets), "tensor name");
  }
}

TEST_F(SafetensorsHostile, RejectsUnknownTypesByName) {
  expect_refused(file_of(R"({"w":{"dtype":"F8_E5M2","shape":[1],"data_offsets":[0,1]}})", "d"), "F8_E5M2");
  expect_refused(file_of(R"({"w":{"dtype":"","shape":[1],"data_offsets":[0,1]}})", "d"), "tensor w");
}

TEST_F(SafetensorsHostile, RejectsOverlappingTensors) {
  const auto two = [](const std::string& a, const std::string& b) {
    return file_of(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":)" + a +
                       R"(},"b":{"dtype":"U8","shape":[4],"data_offsets":)" + b + "}}",
                   "dddddddd");
  };
  EXPECT_TRUE(is_taken(two("[0,4]", "[4,8]")));
  EXPECT_TRUE(is_taken(two("[4,8]", "[0,4]")));
  for (const char* other : {"[0,4]", "[1,5]", "[3,7]"}) EXPECT_FALSE(is_taken(two("[0,4]", other))) << other;
}

TEST_F(SafetensorsHostile, EmptyTensorsMayHaveAnyOffset) {
  // Empty tensors may be listed in any order, and their equal offsets aren't an overlap.
  for (const char* name : {"a", "n", "z"}) {
    EXPECT_TRUE(is_taken(file_of(R"({"m":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},")" + std::string(name) +
                                     R"(":{"dtype":"F32","shape":[0,3],"data_offsets":[0,0]},")" + name +
                                     R"(2":{"dtype":"F32","shape":[0],"data_offsets":[4,4]}})",
                                 "dddd")));
  }
}

TEST_F(SafetensorsHostile, RejectsNonStringMetadata) {
  expect_refused(file_of(R"({"__metadata__":[]})", ""), "__metadata__ is not an object");
  expect_refused(file_of(R"({"__metadata__":{"a\n":1}})", ""), "__metadata__.a\\x0A is not a string");
}

}  // namespace
}  // namespace folio::core
