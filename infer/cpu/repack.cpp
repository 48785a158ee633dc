#include "infer/cpu/repack.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "core/error.h"
#include "core/float16.h"
#include "core/quants.h"

namespace folio::infer {
namespace {

using kernels::GroupMatrix;
using kernels::kGroupColumns;
using kernels::kTileRows;

size_t rows_of(const core::TensorView& tensor) { return static_cast<size_t>(tensor.shape.front()); }

// One row of a tensor: its quants, and the numbers of its groups.
struct Row {
  std::vector<uint8_t> quants;
  std::vector<float> scales;
  std::vector<float> minimums;
};

// Four columns of one row are one word of the tile.
void put_quants(const GroupMatrix& m, const Row& row, uint8_t* tile, size_t r) {
  const auto word = [&](size_t column) {
    uint32_t four;
    std::memcpy(&four, row.quants.data() + column, sizeof four);
    return four;
  };
  const auto put = [&](size_t index, uint32_t four) {
    std::memcpy(tile + (index * kTileRows + r) * sizeof four, &four, sizeof four);
  };
  if (!m.nibbles) {
    for (size_t c = 0; c < m.k; c += 4) put(c / 4, word(c));
    return;
  }
  constexpr size_t kHalf = kGroupColumns / 2;
  for (size_t g = 0; g < m.k / kGroupColumns; ++g) {
    const size_t column = g * kGroupColumns;
    for (size_t c = 0; c < kHalf; c += 4) {
      put((g * kHalf + c) / 4, word(column + c) | word(column + kHalf + c) << 4U);  // nibbles: nothing is shifted out
    }
  }
}

void put_numbers(const GroupMatrix& m, const std::vector<float>& numbers, uint8_t* to, size_t r) {
  for (size_t g = 0; g < numbers.size(); ++g) {
    const size_t at = g * kTileRows + r;
    if (m.half) {
      const uint16_t bits = core::float_to_f16(numbers[g]);
      std::memcpy(to + at * sizeof bits, &bits, sizeof bits);
    } else {
      std::memcpy(to + at * sizeof(float), &numbers[g], sizeof(float));
    }
  }
}

void put_tile(const GroupMatrix& m, const core::TensorView& tensor, size_t index, Row& row, uint8_t* tile) {
  const size_t n_out = rows_of(tensor);
  const size_t row_bytes = tensor.bytes.size() / n_out;
  const size_t first = index * kTileRows;
  const size_t rows = std::min(kTileRows, n_out - first);
  if (rows < kTileRows) std::memset(tile, 0, m.tile_bytes());
  for (size_t r = 0; r < rows; ++r) {
    core::unpack(tensor.type, tensor.bytes.subspan((first + r) * row_bytes, row_bytes), row.quants, row.scales,
                 row.minimums);
    put_quants(m, row, tile, r);
    put_numbers(m, row.scales, tile + m.quant_bytes(), r);
    if (m.minimums) put_numbers(m, row.minimums, tile + m.quant_bytes() + m.scale_bytes(), r);
  }
}

}  // namespace

GroupMatrix group_layout(const core::TensorView& tensor) {
  const core::QuantInfo* q = core::quant_info(tensor.type);
  core::require(q != nullptr, "the tensor {} has type {}, which has no groups", tensor.name,
                core::info(tensor.type).name);
  return {.tiles = nullptr,
          .k = static_cast<size_t>(tensor.shape.back()),
          .group = q->group,
          .zero_point = q->zero_point,
          .nibbles = q->bits == 4,
          .minimums = q->minimums,
          .half = q->half_scales};
}

size_t group_bytes(const core::TensorView& tensor) {
  return (rows_of(tensor) + kTileRows - 1) / kTileRows * group_layout(tensor).tile_bytes();
}

GroupMatrix repack(const core::TensorView& tensor, std::span<uint8_t> tiles, core::ThreadPool& pool) {
  GroupMatrix m = group_layout(tensor);
  const size_t n_tiles = tiles.size() / m.tile_bytes();
  pool.parallel_for(n_tiles, 1, [&](size_t begin, size_t end) {
    const size_t groups = m.k / m.group;
    Row row{.quants = std::vector<uint8_t>(m.k),
            .scales = std::vector<float>(groups),
            .minimums = std::vector<float>(m.minimums ? groups : 0)};
    for (size_t i = begin; i < end; ++i) put_tile(m, tensor, i, row, tiles.data() + i * m.tile_bytes());
  });
  m.tiles = tiles.data();
  return m;
}

}  // namespace folio::infer
