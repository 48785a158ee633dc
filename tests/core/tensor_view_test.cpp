// Tests core/tensor_view.h: a tensor's size in bytes follows from its type and shape.
#include "core/tensor_view.h"

#include <gtest/gtest.h>

#include <set>

namespace folio::core {
namespace {

std::optional<uint64_t> bytes_of(DType type, std::vector<int64_t> shape) { return tensor_bytes(type, shape); }

TEST(DType, NamesAndIdsRoundTrip) {
  std::set<std::string_view> names;
  constexpr size_t kTypes = static_cast<size_t>(DType::U8) + 1;  // U8 is the last
  for (size_t n = 0; n < kTypes; ++n) {
    const auto type = static_cast<DType>(n);
    const DTypeInfo& i = info(type);
    EXPECT_EQ(i.type, type);
    names.insert(i.name);
    EXPECT_TRUE(i.ggml_id < 0 || dtype_from_ggml(static_cast<uint32_t>(i.ggml_id)) == type) << i.name;
    EXPECT_TRUE(i.safetensors.empty() || dtype_from_safetensors(i.safetensors) == type) << i.name;
  }
  EXPECT_EQ(names.size(), kTypes);
}

TEST(DType, UnknownIdsAndNamesGiveNullopt) {
  for (const uint32_t id : {4U, 5U, 9U, 31U, 33U, 1000U, 0x80000000U, UINT32_MAX}) {
    EXPECT_EQ(dtype_from_ggml(id), std::nullopt);
  }
  for (const char* name : {"", "f32", "Q8_0", "F8", "BOOL"}) EXPECT_EQ(dtype_from_safetensors(name), std::nullopt);
}

TEST(TensorBytes, MatchesTheBlockFormats) {
  EXPECT_EQ(bytes_of(DType::F32, {3, 5}), 60U);
  EXPECT_EQ(bytes_of(DType::F32, {}), 4U);
  EXPECT_EQ(bytes_of(DType::BF16, {7}), 14U);
  EXPECT_EQ(bytes_of(DType::Q8_0, {2, 64}), 2U * 2 * 34);
  EXPECT_EQ(bytes_of(DType::Q4_0, {32}), 18U);
  EXPECT_EQ(bytes_of(DType::Q4_K, {3, 512}), 3U * 2 * 144);
  EXPECT_EQ(bytes_of(DType::F64, {0, 5}), 0U);
}

TEST(TensorBytes, RequiresRowsOfWholeBlocks) {
  EXPECT_EQ(bytes_of(DType::Q8_0, {2, 16}), std::nullopt) << "32 elements, but no row of 32";
  EXPECT_EQ(bytes_of(DType::Q8_0, {33}), std::nullopt);
  EXPECT_EQ(bytes_of(DType::Q6_K, {256, 128}), std::nullopt);
}

TEST(TensorBytes, OverflowGivesNullopt) {
  EXPECT_EQ(bytes_of(DType::F32, {int64_t{1} << 62U}), std::nullopt);
  EXPECT_EQ(bytes_of(DType::F32, {int64_t{1} << 31U, int64_t{1} << 31U}), std::nullopt);
  EXPECT_EQ(bytes_of(DType::I8, {int64_t{1} << 32U, int64_t{1} << 32U}), std::nullopt);
  EXPECT_EQ(bytes_of(DType::I8, {INT64_MAX, 3}), std::nullopt);
  EXPECT_EQ(bytes_of(DType::I8, {INT64_MAX, 2}), UINT64_MAX - 1);
  for (const auto& shape : {std::vector<int64_t>{-1}, {0, -1}, {-2, -3}}) {
    EXPECT_EQ(bytes_of(DType::I8, shape), std::nullopt);
  }
  EXPECT_EQ(bytes_of(DType::I8, {INT64_MAX}), static_cast<uint64_t>(INT64_MAX));
}

TEST(ShapeString, ReadsLikePyTorch) {
  EXPECT_EQ(shape_string(std::vector<int64_t>{32, 128}), "[32, 128]");
  EXPECT_EQ(shape_string({}), "[]");
}

}  // namespace
}  // namespace folio::core
