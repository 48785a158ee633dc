// Tests core/formats/gguf.h on valid files: values are read by key and type, and errors name file and key.
// formats_oracle_test.py compares every type of metadata and tensors, read and written, with the gguf package.
#include "core/formats/gguf.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/file_io.h"
#include "tests/core/formats/stored_tensors.h"

namespace folio::core {
namespace {

using test::raw;
using test::Stored;
using test::stored;
using test::TempDir;

GgufMetadata every_type() {
  return {
      {"u8", uint8_t{255}},
      {"i8", int8_t{-128}},
      {"u16", uint16_t{65535}},
      {"i16", int16_t{-32768}},
      {"u32", UINT32_MAX},
      {"i32", INT32_MIN},
      {"f32", -0.0F},
      {"bool.true", true},
      {"bool.false", false},
      {"string", std::string("héllo\n\0z", 9)},
      {"u64", UINT64_MAX},
      {"i64", INT64_MIN},
      {"f64", 0.1},
      {"a.i32", GgufArray{std::vector<int32_t>{INT32_MIN, INT32_MAX}}},
      {"a.string", GgufArray{std::vector<std::string>{"x", "", std::string("\0y", 2)}}},
      {"a.string.empty", GgufArray{std::vector<std::string>{}}},
  };
}

void write(const std::filesystem::path& path, const GgufMetadata& metadata, const std::vector<TensorView>& tensors) {
  write_file_atomically(path, [&](OutputFile& out) { write_gguf(out, metadata, tensors); });
}

TEST(Gguf, AcceptsAnEmptyFile) {
  const TempDir dir;
  write(dir / "f", {}, {});
  const GgufFile file(dir / "f");
  EXPECT_TRUE(file.tensors().empty());
  test::write_bytes(dir / "g", "GGUF" + raw<uint32_t>(3) + raw<uint64_t>(0) + raw<uint64_t>(0));
  EXPECT_TRUE(GgufFile(dir / "g").metadata().empty());
}

class GgufAccess : public ::testing::Test {
 protected:
  static std::filesystem::path written(const std::filesystem::path& path) {
    write(path, every_type(), {});
    return path;
  }
  TempDir dir_;
  GgufFile file_{written(dir_ / "f")};
};

TEST_F(GgufAccess, ReadsIntegersOfEveryType) {
  EXPECT_EQ(file_.integer("u8"), 255);
  EXPECT_EQ(file_.integer("i8"), -128);
  EXPECT_EQ(file_.integer("u16"), 65535);
  EXPECT_EQ(file_.integer("i16"), -32768);
  EXPECT_EQ(file_.integer("u32"), UINT32_MAX);
  EXPECT_EQ(file_.integer("i32"), INT32_MIN);
  EXPECT_EQ(file_.integer("i64"), INT64_MIN);
  EXPECT_ERROR(file_.integer("u64"), "u64 is 18446744073709551615, which is too large");
}

TEST_F(GgufAccess, ReadsOtherTypesUnchanged) {
  EXPECT_TRUE(std::signbit(file_.real("f32")));
  EXPECT_EQ(file_.real("f64"), 0.1F);
  EXPECT_TRUE(file_.boolean("bool.true"));
  EXPECT_FALSE(file_.boolean("bool.false"));
  EXPECT_EQ(file_.string("string"), std::string("héllo\n\0z", 9));
  EXPECT_EQ(file_.list<std::string>("a.string"), (std::vector<std::string>{"x", "", std::string("\0y", 2)}));
  EXPECT_TRUE(file_.list<std::string>("a.string.empty").empty());
}

TEST_F(GgufAccess, FallbackAppliesOnlyToMissingKeys) {
  EXPECT_EQ(file_.integer("absent", -3), -3);
  EXPECT_EQ(file_.real("absent", 2.5F), 2.5F);
  EXPECT_TRUE(file_.boolean("absent", true));
  EXPECT_EQ(file_.integer("u8", -3), 255);
  EXPECT_FALSE(file_.boolean("bool.false", true));
  EXPECT_ERROR(file_.integer("string", 3), "string");
  EXPECT_ERROR(file_.real("u8", 3.0F), "u8");
  EXPECT_ERROR(file_.boolean("u8", true), "u8");
}

TEST_F(GgufAccess, ErrorsNameFileAndKey) {
  const std::string where = file_.path().string() + ": ";
  EXPECT_ERROR(file_.integer("some.key"), where + "the metadata key some.key is missing");
  EXPECT_ERROR(file_.real("some.key"), where + "the metadata key some.key");
  EXPECT_ERROR(file_.boolean("some.key"), where + "the metadata key some.key");
  EXPECT_ERROR(file_.string("some.key"), where + "the metadata key some.key");
  EXPECT_ERROR(file_.list<std::string>("some.key"), where + "the metadata key some.key");
  EXPECT_ERROR(file_.integer("bool.true"), "not an integer");
  EXPECT_ERROR(file_.integer("f32"), "not an integer");
  EXPECT_ERROR(file_.real("i32"), "not a floating-point number");
  EXPECT_ERROR(file_.string("a.string"), "not a string");
  EXPECT_ERROR(file_.list<std::string>("string"), "not a list of strings");
  EXPECT_ERROR(file_.list<std::string>("a.i32"), "not a list of strings");
}

TEST(GgufWriter, RejectsInputTheReaderWouldReject) {
  const TempDir dir;
  const Stored good = stored("w", DType::F32, {4});
  const auto error_for = [&](const TensorView& view) { return test::error_of([&] { write(dir / "f", {}, {view}); }); };
  TensorView view = good.view();
  view.shape = {5};
  EXPECT_TRUE(test::contains(error_for(view), "w")) << "its bytes are not those of its shape";
  view.shape = {};
  EXPECT_TRUE(test::contains(error_for(view), "w")) << "no dimensions";
  view.shape = {1, 1, 1, 2, 2};
  EXPECT_TRUE(test::contains(error_for(view), "w")) << "five dimensions";
  view.shape = {0};
  view.bytes = {};
  EXPECT_TRUE(test::contains(error_for(view), "w")) << "a dimension of 0";
  EXPECT_TRUE(test::contains(error_for(stored("w", DType::U8, {4}).view()), "w")) << "GGUF has no U8";
  EXPECT_ERROR(write(dir / "f", {}, {good.view(), good.view()}), "w");
  EXPECT_ERROR(write(dir / "f", {{"k", true}, {"k", false}}, {}), "k");
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
}

}  // namespace
}  // namespace folio::core
