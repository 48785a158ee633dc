// Tests core/formats/gguf.h on valid files: values are read by key and type, and errors name file and key.
// formats_oracle_test.py compares every type of metadata and tensors, read and written, with the gguf package.
#include "core/formats/gguf.h"

#include <gtest/gtest.h>

#include "core/file_io.h"
#include "core/weights.h"
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

TEST(Gguf, MoveKeepsTensors) {
  const TempDir dir;
  write(dir / "f", {{"k", uint8_t{7}}}, {stored("z.first", DType::F32, {3, 5}).view()});
  GgufFile first(dir / "f");
  const GgufFile file(std::move(first));
  EXPECT_EQ(file.integer("k"), 7);
  EXPECT_EQ(to_floats(*file.find_tensor("z.first")).size(), 15U);
}

TEST(GgufAccess, ReadsIntegersOfEveryType) {
  const TempDir dir;
  write(dir / "f", every_type(), {});
  const GgufFile file(dir / "f");
  EXPECT_EQ(file.integer("u8"), 255);
  EXPECT_EQ(file.integer("i8"), -128);
  EXPECT_EQ(file.integer("u16"), 65535);
  EXPECT_EQ(file.integer("i16"), -32768);
  EXPECT_EQ(file.integer("u32"), UINT32_MAX);
  EXPECT_EQ(file.integer("i32"), INT32_MIN);
  EXPECT_EQ(file.integer("i64"), INT64_MIN);
  EXPECT_ERROR(file.integer("u64"), "u64 is 18446744073709551615, which is too large");
}

TEST(GgufAccess, ReadsOtherTypesUnchanged) {
  const TempDir dir;
  write(dir / "f", every_type(), {});
  const GgufFile file(dir / "f");
  EXPECT_TRUE(std::signbit(file.real("f32")));
  EXPECT_EQ(file.real("f64"), 0.1F);
  EXPECT_TRUE(file.boolean("bool.true"));
  EXPECT_FALSE(file.boolean("bool.false"));
  EXPECT_EQ(file.string("string"), std::string("héllo\n\0z", 9));
  EXPECT_EQ(file.list<std::string>("a.string"), (std::vector<std::string>{"x", "", std::string("\0y", 2)}));
  EXPECT_TRUE(file.list<std::string>("a.string.empty").empty());
}

TEST(GgufAccess, FallbackAppliesOnlyToMissingKeys) {
  const TempDir dir;
  write(dir / "f", every_type(), {});
  const GgufFile file(dir / "f");
  EXPECT_EQ(file.integer("absent", -3), -3);
  EXPECT_EQ(file.real("absent", 2.5F), 2.5F);
  EXPECT_TRUE(file.boolean("absent", true));
  EXPECT_EQ(file.integer("u8", -3), 255);
  EXPECT_FALSE(file.boolean("bool.false", true));
  EXPECT_ERROR(file.integer("string", 3), "string");
  EXPECT_ERROR(file.real("u8", 3.0F), "u8");
  EXPECT_ERROR(file.boolean("u8", true), "u8");
}

TEST(GgufAccess, ErrorsNameFileAndKey) {
  const TempDir dir;
  write(dir / "f", every_type(), {});
  const GgufFile file(dir / "f");
  const std::string where = (dir / "f").string() + ": ";
  EXPECT_ERROR(file.integer("some.key"), where + "the metadata key some.key is missing");
  EXPECT_ERROR(file.real("some.key"), where + "the metadata key some.key");
  EXPECT_ERROR(file.boolean("some.key"), where + "the metadata key some.key");
  EXPECT_ERROR(file.string("some.key"), where + "the metadata key some.key");
  EXPECT_ERROR(file.list<std::string>("some.key"), where + "the metadata key some.key");
  EXPECT_ERROR(file.integer("bool.true"), "not an integer");
  EXPECT_ERROR(file.integer("f32"), "not an integer");
  EXPECT_ERROR(file.real("i32"), "not a floating-point number");
  EXPECT_ERROR(file.string("a.string"), "not a string");
  EXPECT_ERROR(file.list<std::string>("string"), "not a list of strings");
  EXPECT_ERROR(file.list<std::string>("a.i32"), "not a list of strings");
}

TEST(GgufWriter, RejectsInputTheReaderWouldReject) {
  const TempDir dir;
  const Stored good = stored("w", DType::F32, {4});
  const auto refused = [&](const TensorView& view) { return test::error_of([&] { write(dir / "f", {}, {view}); }); };
  TensorView view = good.view();
  view.shape = {5};
  EXPECT_TRUE(test::contains(refused(view), "w")) << "its bytes are not those of its shape";
  view.shape = {};
  EXPECT_TRUE(test::contains(refused(view), "w")) << "no dimension";
  view.shape = {1, 1, 1, 2, 2};
  EXPECT_TRUE(test::contains(refused(view), "w")) << "five dimensions";
  view.shape = {0};
  view.bytes = {};
  EXPECT_TRUE(test::contains(refused(view), "w")) << "nothing in it";
  EXPECT_TRUE(test::contains(refused(stored("w", DType::U8, {4}).view()), "w")) << "GGUF has no U8";
  EXPECT_ERROR(write(dir / "f", {}, {good.view(), good.view()}), "w");
  EXPECT_ERROR(write(dir / "f", {{"k", true}, {"k", false}}, {}), "k");
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
}

}  // namespace
}  // namespace folio::core
