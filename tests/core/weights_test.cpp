// Tests core/weights.h: conversions to wider types are exact, those to narrower types reject values that don't fit, and
// vocabularies are reordered by whole rows.
#include "core/weights.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>

#include "core/float16.h"
#include "core/quantize.h"
#include "core/quants.h"
#include "core/random.h"
#include "tests/core/model_support.h"

namespace folio::core {
namespace {

using test::kGrouped;
using test::numbered_weights;

template <typename T>
TensorView view(const std::vector<T>& values, DType type, std::vector<int64_t> shape = {}) {
  if (shape.empty()) shape = {1, static_cast<int64_t>(values.size())};
  return {.name = "w", .type = type, .shape = std::move(shape), .bytes = std::as_bytes(std::span(values))};
}

StoredModel stored(const Weights& weights) {
  return {.path = "m.bin",
          .format = ModelFormat::Gguf,
          .config = weights.config,
          .tensors = weights.views(),
          .storage = {},
          .gguf = {}};
}

std::vector<uint16_t> halves(std::span<const std::byte> bytes) {
  std::vector<uint16_t> values(bytes.size() / 2);
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

TEST(ToFloats, ReadsUnalignedBytes) {
  const std::array<float, 3> values{1.0F, -2.0F, 3.5F};
  std::vector<std::byte> bytes(1 + sizeof values);
  std::memcpy(bytes.data() + 1, values.data(), sizeof values);
  const TensorView odd{.name = "w", .type = DType::F32, .shape = {3}, .bytes = std::span(bytes).subspan(1)};
  EXPECT_EQ(to_floats(odd), std::vector<float>(values.begin(), values.end()));
  const TensorView half{.name = "w", .type = DType::BF16, .shape = {2}, .bytes = std::span(bytes).subspan(1, 4)};
  EXPECT_EQ(to_floats(half), (std::vector<float>{0.0F, 1.0F})) << "the two halves of 1.0F";
}

TEST(ToFloats, RejectsOtherTypesByName) {
  const std::vector<std::byte> bytes(512);
  for (const DType type : {DType::I32, DType::Q2_K, DType::Q3_K, DType::Q8_K}) {
    const std::string message = "tensor w has type " + std::string(info(type).name) + ", expected F32, F16, BF16, Q8_0";
    EXPECT_ERROR(to_floats(view(bytes, type)), message);
  }
}

TEST(StreamAs, ConvertsMatricesAndKeepsVectorsInF32) {
  const Weights weights = numbered_weights(kGrouped);
  for (const DType type : {DType::F32, DType::F16, DType::BF16}) {
    const TensorStream stream = stream_as(weights.views(), type);
    ASSERT_EQ(stream.tensors.size(), weights.tensors.size());
    for (size_t i = 0; i < stream.tensors.size(); ++i) {
      TensorView to = stream.tensors[i];
      EXPECT_EQ(to.type, to.shape.size() > 1 ? type : DType::F32) << to.name;
      to.bytes = checked_bytes(stream, i);
      const std::vector<float> values = to_floats(to);
      for (size_t k = 0; k < values.size(); ++k) {
        const float from = weights.tensors[i][k];
        const float expected = to.type == DType::F16    ? f16_to_float(float_to_f16(from))
                               : to.type == DType::BF16 ? bf16_to_float(float_to_bf16(from))
                                                        : from;
        ASSERT_EQ(values[k], expected) << to.name;
      }
    }
  }
}

TEST(StreamAs, SameTypeIsNotCopied) {
  const std::vector<uint16_t> values{0x7C01, 0xFE00, 0x7C00, 0x0001};  // NaNs, infinity, a subnormal
  const TensorView matrix = view(values, DType::F16);
  EXPECT_EQ(stream_as({matrix}, DType::F16).bytes(0).data(), matrix.bytes.data());
}

TEST(StreamAs, RoundTripThroughF32IsExact) {
  std::vector<uint16_t> all(0x10000);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint16_t>(i);
  for (const DType type : {DType::F16, DType::BF16}) {
    const TensorStream widened = stream_as({view(all, type)}, DType::F32);
    TensorView wide = widened.tensors[0];
    wide.bytes = widened.bytes(0);
    EXPECT_EQ(halves(stream_as({wide}, type).bytes(0)), all) << info(type).name;
  }
}

TEST(StreamAs, NamesATensorThatOverflows) {
  const std::vector<float> fits{65504.0F, -65519.0F};
  EXPECT_EQ(halves(stream_as({view(fits, DType::F32)}, DType::F16).bytes(0)), (std::vector<uint16_t>{0x7BFF, 0xFBFF}));
  const std::vector<float> large{1.0F, -65520.0F};
  EXPECT_ERROR(stream_as({view(large, DType::F32)}, DType::F16).bytes(0),
               "tensor w contains -65520, which is too large for F16; use --type bf16 or f32");
  const std::vector<float> largest{std::numeric_limits<float>::max()};
  EXPECT_ERROR(stream_as({view(largest, DType::F32)}, DType::BF16).bytes(0), "which is too large for BF16");
}

TEST(StreamAs, InfinityIsNotAnOverflow) {
  const std::vector<float> values{HUGE_VALF, -HUGE_VALF, std::numeric_limits<float>::quiet_NaN()};
  EXPECT_EQ(halves(stream_as({view(values, DType::F32)}, DType::F16).bytes(0)),
            (std::vector<uint16_t>{0x7C00, 0xFC00, 0x7E00}));
}

TEST(StreamAs, RejectsRowsOfPartialBlocksByName) {
  const std::vector<float> values(3 * 48);
  EXPECT_ERROR(stream_as({view(values, DType::F32, {3, 48})}, DType::Q4_0),
               "tensor w of shape [3, 48] needs rows that are a multiple of 32 for Q4_0");
}

TEST(StreamAs, ChunksMatchTheWholeTensor) {
  std::vector<float> values(130 * 768);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(random_uniform(9, i)) - 0.5F;
  for (const DType from : {DType::F32, DType::F16, DType::Q4_1}) {
    const TensorStream source = stream_as({view(values, DType::F32, {130, 768})}, std::vector{from});
    TensorView tensor = source.tensors[0];
    tensor.bytes = checked_bytes(source, 0);
    const std::vector<float> exact = to_floats(tensor);
    for (const DType to : {DType::Q5_0, DType::Q4_K, DType::Q6_K}) {
      const TensorStream stream = stream_as({tensor}, std::vector{to});
      EXPECT_TRUE(std::ranges::equal(checked_bytes(stream, 0), quantize(to, exact, "w"))) << info(to).name;
    }
  }
  values[100 * 768] = 1e30F;
  values[20 * 768] = -2e30F;
  EXPECT_ERROR(stream_as({view(values, DType::F32, {130, 768})}, DType::F16).bytes(0), "w contains -2e+30");
}

TEST(WithVocabulary, RemapsRows) {
  for (const bool tied : {true, false}) {
    ModelConfig config = kGrouped;
    config.tie_embeddings = tied;
    const Weights weights = numbered_weights(config);
    const std::vector<int32_t> source{10, 0, 0, 3, 10};
    const StoredModel moved = with_vocabulary(stored(weights), source);
    ModelConfig expected = config;
    expected.vocab_size = 5;
    EXPECT_EQ(moved.config, expected);
    const auto manifest = tensor_manifest(moved.config);
    ASSERT_EQ(moved.tensors.size(), manifest.size());
    for (size_t i = 0; i < manifest.size(); ++i) {
      EXPECT_EQ(moved.tensors[i].shape, manifest[i].shape) << manifest[i].gguf_name;
      const std::vector<float> values = to_floats(moved.tensors[i]);
      const bool of_tokens = manifest[i].role == Role::TokenEmbedding || manifest[i].role == Role::Output;
      if (!of_tokens) {
        EXPECT_EQ(values, weights.tensors[i]) << manifest[i].gguf_name;
        continue;
      }
      for (size_t row = 0; row < source.size(); ++row) {
        const auto from = weights.tensors[i].begin() + source[row] * config.dim;
        EXPECT_TRUE(std::equal(from, from + config.dim, values.begin() + static_cast<ptrdiff_t>(row) * config.dim))
            << manifest[i].gguf_name << " row " << row;
      }
    }
  }
}

TEST(WithVocabulary, RemappedRowsOutliveTheirModel) {
  std::optional<StoredModel> moved;
  {
    const Weights weights = numbered_weights(kGrouped);
    StoredModel model = stored(weights);
    model.tensors.resize(1);
    moved = with_vocabulary(model, std::vector<int32_t>(11, 2));
  }
  EXPECT_EQ(to_floats(moved->tensors[0])[0], numbered_weights(kGrouped).tensors[0][2 * 24]);
}

TEST(WithVocabulary, RejectsRowsOutsideTheVocabulary) {
  const Weights weights = numbered_weights(kGrouped);
  for (const int32_t row : {-1, 11, INT32_MAX, INT32_MIN}) {
    EXPECT_ERROR(with_vocabulary(stored(weights), std::vector<int32_t>{0, row}),
                 "m.bin: row " + std::to_string(row) + " is outside the vocabulary of 11");
  }
}

}  // namespace
}  // namespace folio::core
