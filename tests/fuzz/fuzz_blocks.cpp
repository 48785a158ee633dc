// Fuzzes block types. Any bytes are valid blocks: unpacking, dequantizing and repacking must give equal values. Then
// quantizes these values and, separately, the input's bytes as floats. Quantizing may only fail with a one-line error.
// Input: a byte for the type, a byte for the number of rows, then the rows of whole blocks.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "core/quantize.h"
#include "core/quants.h"
#include "infer/cpu/matrix.h"
#include "infer/cpu/repack.h"
#include "tests/fuzz/fuzz.h"

namespace folio::fuzz {
namespace {

using core::DType;

constexpr std::array kTypes{DType::Q8_0, DType::Q4_0, DType::Q4_1, DType::Q5_0, DType::Q5_1,
                            DType::Q4_K, DType::Q5_K, DType::Q6_K, DType::MXFP4};

bool same(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b) || (std::isnan(a) && std::isnan(b));
}

void quantized(std::span<const float> values) {
  for (const DType type : kTypes) {
    std::vector<std::byte> blocks;
    if (!accepted([&] { blocks = core::quantize(type, values, "w"); }, "w")) continue;
    std::vector<float> back(values.size());
    core::dequantize(type, blocks, back);
    check(std::ranges::all_of(back, [](float v) { return std::isfinite(v); }), "quantized blocks have finite values");
  }
}

}  // namespace

bool take(std::string_view input) {
  if (input.size() < 2) return false;
  const DType type = kTypes[static_cast<uint8_t>(input[0]) % kTypes.size()];
  const size_t rows = static_cast<uint8_t>(input[1]) % 40 + 1;
  const core::DTypeInfo& t = core::info(type);
  const size_t row_blocks = (input.size() - 2) / rows / t.block_bytes;
  if (row_blocks == 0) return false;
  // A heap block of exactly the needed size, so that AddressSanitizer detects a read past its end.
  std::vector<std::byte> blocks(rows * row_blocks * t.block_bytes);
  std::memcpy(blocks.data(), input.data() + 2, blocks.size());
  const size_t k = row_blocks * t.block_elements;

  std::vector<float> values(rows * k);
  core::dequantize(type, blocks, values);
  const core::TensorView tensor{
      .name = "w", .type = type, .shape = {static_cast<int64_t>(rows), static_cast<int64_t>(k)}, .bytes = blocks};
  core::ThreadPool pool(1);
  std::vector<uint8_t> tiles(infer::group_bytes(tensor));
  const infer::Matrix matrix{.weights = infer::repack(tensor, tiles, pool), .n_out = rows, .k = k};
  std::vector<float> row(k);
  for (size_t r = 0; r < rows; ++r) {
    matrix.row(r, row);
    check(std::equal(row.begin(), row.end(), values.begin() + static_cast<ptrdiff_t>(r * k), same),
          "repacked weights equal the dequantized blocks");
  }
  quantized(values);
  std::vector<float> raw(blocks.size() / sizeof(float) / 32 * 32);
  if (!raw.empty()) std::memcpy(raw.data(), blocks.data(), raw.size() * sizeof(float));
  quantized(raw);
  return true;
}

}  // namespace folio::fuzz
