// Tests core/formats/gguf.h on valid files: writing and reading keeps every bit. formats_oracle_test.py compares the
// layout, types and order with the gguf package.
#include "core/formats/gguf.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "core/file_io.h"
#include "tests/core/formats/stored_tensors.h"

namespace folio::core {
namespace {

using test::raw;
using test::Stored;
using test::stored;
using test::TempDir;
using test::views_of;

// Returns one value (or both extremes) of each type, and arrays of each type, including empty and nested ones.
GgufMetadata every_type() {
  const GgufArray inner{std::vector<std::string>{"x", "", std::string("\0y", 2)}};
  const GgufArray nested{std::vector<GgufArray>{{std::vector<int32_t>{1, -2}}, {std::vector<int32_t>{}}, inner}};
  return {
      {"u8", uint8_t{255}},
      {"i8", int8_t{-128}},
      {"u16", uint16_t{65535}},
      {"i16", int16_t{-32768}},
      {"u32", UINT32_MAX},
      {"i32", INT32_MIN},
      {"f32", -0.0F},
      {"f32.denormal", std::numeric_limits<float>::denorm_min()},
      {"bool.true", true},
      {"bool.false", false},
      {"string", std::string("héllo\n\0z", 9)},
      {"string.empty", std::string()},
      {"", std::string("a key may be empty")},
      {"u64", UINT64_MAX},
      {"i64", INT64_MIN},
      {"f64", 0.1},
      {"a.u8", GgufArray{std::vector<uint8_t>{0, 255}}},
      {"a.i8", GgufArray{std::vector<int8_t>{-128, 127}}},
      {"a.u16", GgufArray{std::vector<uint16_t>{0, 65535}}},
      {"a.i16", GgufArray{std::vector<int16_t>{-32768, 32767}}},
      {"a.u32", GgufArray{std::vector<uint32_t>{0, UINT32_MAX}}},
      {"a.i32", GgufArray{std::vector<int32_t>{INT32_MIN, INT32_MAX}}},
      {"a.f32", GgufArray{std::vector<float>{-0.0F, 1e-45F, std::numeric_limits<float>::infinity()}}},
      {"a.bool", GgufArray{std::vector<bool>{true, false, true, true}}},
      {"a.string", inner},
      {"a.string.empty", GgufArray{std::vector<std::string>{}}},
      {"a.array", nested},
      {"a.array.deeper", GgufArray{std::vector<GgufArray>{nested, nested}}},
      {"a.u64", GgufArray{std::vector<uint64_t>{0, UINT64_MAX}}},
      {"a.i64", GgufArray{std::vector<int64_t>{INT64_MIN, INT64_MAX}}},
      {"a.f64", GgufArray{std::vector<double>{-0.0, 1e308}}},
  };
}

// Returns a tensor of every GGUF type, with odd sizes. Names are unsorted, so that a test detects a changed order.
std::vector<Stored> every_tensor_type() {
  return {stored("z.first", DType::F32, {3, 5}),  stored("a", DType::F16, {7}),
          stored("bf16", DType::BF16, {2, 3, 5}), stored("q4_0", DType::Q4_0, {3, 32}),
          stored("q4_1", DType::Q4_1, {64}),      stored("q5_0", DType::Q5_0, {32}),
          stored("q5_1", DType::Q5_1, {32}),      stored("q8_0", DType::Q8_0, {5, 96}),
          stored("q2_k", DType::Q2_K, {256}),     stored("q3_k", DType::Q3_K, {2, 256}),
          stored("q4_k", DType::Q4_K, {256}),     stored("q5_k", DType::Q5_K, {512}),
          stored("q6_k", DType::Q6_K, {256}),     stored("q8_k", DType::Q8_K, {256}),
          stored("i8", DType::I8, {1, 1, 1, 1}),  stored("i16", DType::I16, {2, 3, 4, 5}),
          stored("i32", DType::I32, {9}),         stored("i64", DType::I64, {1}),
          stored("f64", DType::F64, {3})};
}

void write(const std::filesystem::path& path, const GgufMetadata& metadata, const std::vector<TensorView>& tensors) {
  write_file_atomically(path, [&](OutputFile& out) { write_gguf(out, metadata, tensors); });
}

TEST(Gguf, RoundTripKeepsEveryBit) {
  const TempDir dir;
  const auto tensors = every_tensor_type();
  GgufMetadata metadata = every_type();
  metadata.emplace_back("nan", std::bit_cast<float>(0x7FC12345U));  // NaN != NaN, so the files' bytes are compared
  write(dir / "a", metadata, views_of(tensors));
  const GgufFile file(dir / "a");
  EXPECT_EQ(std::bit_cast<uint32_t>(std::get<float>(*file.find("nan"))), 0x7FC12345U);
  EXPECT_EQ(file.size() % 32, 0U);
  write(dir / "b", file.metadata(), file.tensors());
  EXPECT_EQ(test::read_bytes(dir / "a"), test::read_bytes(dir / "b"));
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
  write(dir / "f", {{"k", uint8_t{7}}}, views_of(every_tensor_type()));
  GgufFile first(dir / "f");
  const GgufFile file(std::move(first));
  EXPECT_EQ(file.integer("k"), 7);
  EXPECT_EQ(file.find_tensor("z.first")->floats().size(), 15U);
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
  EXPECT_EQ(file.strings("a.string"), (std::vector<std::string>{"x", "", std::string("\0y", 2)}));
  EXPECT_TRUE(file.strings("a.string.empty").empty());
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
  EXPECT_ERROR(file.strings("some.key"), where + "the metadata key some.key");
  EXPECT_ERROR(file.integer("bool.true"), "not an integer");
  EXPECT_ERROR(file.integer("f32"), "not an integer");
  EXPECT_ERROR(file.real("i32"), "not a floating-point number");
  EXPECT_ERROR(file.string("a.string"), "not a string");
  EXPECT_ERROR(file.strings("string"), "not a list of strings");
  EXPECT_ERROR(file.strings("a.i32"), "not a list of strings");
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
