#include "infer/cpu/repack.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

#include "core/error.h"
#include "core/float16.h"
#include "core/quants.h"

namespace folio::infer {
namespace {

using kernels::BF16;
using kernels::GroupMatrix;
using kernels::in_lanes;
using kernels::in_panels;
using kernels::kBlockColumns;
using kernels::kGroupColumns;
using kernels::kLanes;
using kernels::kTileRows;

size_t rows_of(const core::TensorView& tensor) { return static_cast<size_t>(tensor.shape.front()); }

// A block of a tile, unpacked from the file's format: sixteen rows of at most 256 columns. With byte scales, a row has
// one factor for its `scales` (none in FP4) and one for its `minimums`. Otherwise, `factors` has a scale per group,
// `minimum_factors` a minimum, and `scales` and `minimums` are unused.
struct Rows {
  std::array<std::array<uint8_t, kBlockColumns>, kTileRows> quants{};
  std::array<std::array<uint16_t, kBlockColumns / kGroupColumns>, kTileRows> factors{};
  std::array<std::array<uint16_t, kBlockColumns / kGroupColumns>, kTileRows> minimum_factors{};
  std::array<std::array<uint8_t, kBlockColumns / 16>, kTileRows> scales{};
  std::array<std::array<uint8_t, kBlockColumns / 16>, kTileRows> minimums{};
};

// Interleaves the rows: element i of row r is stored at i * 16 + r. Returns the end of the output.
template <typename T, size_t n>
uint8_t* put_side_by_side(const std::array<std::array<T, n>, kTileRows>& rows, size_t n_numbers, uint8_t* to) {
  for (size_t i = 0; i < n_numbers; ++i) {
    for (const auto& row : rows) {
      std::memcpy(to, &row[i], sizeof(T));
      to += sizeof(T);
    }
  }
  return to;
}

// Stores four(r), a word of four columns, for each of sixteen rows r. Returns the end of the output.
template <typename Four>
uint8_t* put_words(uint8_t* to, Four&& four) {
  for (size_t r = 0; r < kTileRows; ++r, to += sizeof(uint32_t)) {
    const uint32_t word = four(r);
    std::memcpy(to, &word, sizeof word);
  }
  return to;
}

// Stores the quants of the 32-column group that begins at `column`. Returns the end of the output.
uint8_t* put_quants(const GroupMatrix& m, const Rows& rows, size_t column, uint8_t* to) {
  const auto word = [&](size_t r, size_t four) {
    uint32_t columns;
    std::memcpy(&columns, rows.quants[r].data() + column + 4 * four, sizeof columns);
    return columns;
  };
  constexpr uint32_t kNibbles = 0x0F0F0F0F;
  if (m.bits == 8) {
    for (size_t four = 0; four < 8; ++four) to = put_words(to, [&](size_t r) { return word(r, four); });
    return to;
  }
  for (size_t four = 0; four < 4; ++four) {
    to = put_words(to, [&](size_t r) { return (word(r, four) & kNibbles) | (word(r, four + 4) & kNibbles) << 4U; });
  }
  if (m.bits == 5) {
    to = put_words(to, [&](size_t r) {
      uint32_t above = 0;
      for (size_t four = 0; four < 8; ++four) above |= (word(r, four) >> 4U & 0x01010101U) << four;
      return above;
    });
  }
  for (size_t half = 0; m.bits == 6 && half < 2; ++half) {
    to = put_words(to, [&](size_t r) {
      uint32_t above = 0;
      for (size_t four = 0; four < 4; ++four) above |= (word(r, half * 4 + four) >> 4U & 0x03030303U) << 2 * four;
      return above;
    });
  }
  return to;
}

// Stores block `block` of the tile whose first row is `first`, in the layout of reference/groups.h.
void put_block(const GroupMatrix& m, const core::TensorView& tensor, size_t first, size_t block, Rows& rows,
               uint8_t* to) {
  const core::DTypeInfo& type = core::info(tensor.type);
  const size_t n_out = rows_of(tensor);
  const size_t row_bytes = tensor.bytes.size() / n_out;
  const size_t n = m.groups_of(block);
  const size_t begin = block * kBlockColumns / type.block_elements * type.block_bytes;
  const size_t bytes = n * kGroupColumns / type.block_elements * type.block_bytes;
  if (first + kTileRows > n_out) rows = {};
  for (size_t r = 0; r < std::min(kTileRows, n_out - first); ++r) {
    core::unpack(tensor.type, tensor.bytes.subspan((first + r) * row_bytes + begin, bytes),
                 {.quants = std::span(rows.quants[r]).first(n * kGroupColumns),
                  .factors = rows.factors[r],
                  .minimum_factors = rows.minimum_factors[r],
                  .scales = rows.scales[r],
                  .minimums = rows.minimums[r]});
  }
  uint8_t* const quants = to + m.quants_at(n);
  const size_t n_factors = m.byte_scales ? 1 : n;
  if (!m.fp4) to = put_side_by_side(rows.factors, n_factors, to);
  if (m.minimums) to = put_side_by_side(rows.minimum_factors, n_factors, to);
  if (m.byte_scales) {
    const size_t n_scales = n * kGroupColumns / m.group;
    to = put_side_by_side(rows.scales, n_scales, to);
    if (m.minimums) to = put_side_by_side(rows.minimums, n_scales, to);
  }
  std::fill(to, quants, uint8_t{0});
  to = quants;
  for (size_t g = 0; g < n; ++g) to = put_quants(m, rows, g * kGroupColumns, to);
}

}  // namespace

GroupMatrix group_layout(const core::TensorView& tensor) {
  const core::QuantInfo* q = core::quant_info(tensor.type);
  core::require(q != nullptr, "tensor {} has type {}, expected one quantized in groups", tensor.name,
                core::info(tensor.type).name);
  return {*q, nullptr, static_cast<size_t>(tensor.shape.back())};
}

size_t group_bytes(const core::TensorView& tensor) {
  return (rows_of(tensor) + kTileRows - 1) / kTileRows * group_layout(tensor).tile_bytes();
}

GroupMatrix repack(const core::TensorView& tensor, std::span<uint8_t> tiles, core::ThreadPool& pool) {
  GroupMatrix m = group_layout(tensor);
  const core::DTypeInfo& type = core::info(tensor.type);
  core::require(tensor.bytes.size() == rows_of(tensor) * m.k / type.block_elements * type.block_bytes,
                "tensor {} has {} bytes, expected {} rows of {} elements in {}", tensor.name, tensor.bytes.size(),
                rows_of(tensor), m.k, type.name);
  const size_t blocks = (m.k + kBlockColumns - 1) / kBlockColumns;
  pool.parallel_for(tiles.size() / m.tile_bytes(), 1, [&](size_t begin, size_t end) {
    const auto rows = std::make_unique<Rows>();
    for (size_t i = begin; i < end; ++i) {
      uint8_t* to = tiles.data() + i * m.tile_bytes();
      for (size_t b = 0; b < blocks; to += m.block_bytes(m.groups_of(b)), ++b) {
        put_block(m, tensor, i * kTileRows, b, *rows, to);
      }
    }
  });
  m.tiles = tiles.data();
  return m;
}

size_t panel_bytes(const core::TensorView& tensor) {
  return in_lanes(rows_of(tensor)) * kernels::panel_columns(static_cast<size_t>(tensor.shape.back())) * sizeof(BF16);
}

kernels::PanelMatrix pack_panels(const core::TensorView& tensor, std::span<uint8_t> panels, core::ThreadPool& pool) {
  const size_t n = rows_of(tensor);
  const auto k = static_cast<size_t>(tensor.shape.back());
  const bool rounds = tensor.type == core::DType::F16;
  auto* const to = reinterpret_cast<BF16*>(panels.data());
  pool.parallel_for(in_lanes(n) / kLanes, 1, [&](size_t begin, size_t end) {
    std::fill(to + in_panels(k, begin * kLanes, 0), to + in_panels(k, end * kLanes, 0), BF16{0});
    for (size_t row = begin * kLanes; row < std::min(n, end * kLanes); ++row) {
      for (size_t c = 0; c < k; ++c) {
        uint16_t bits;
        std::memcpy(&bits, tensor.bytes.data() + (row * k + c) * sizeof bits, sizeof bits);
        to[in_panels(k, row, c)] = {rounds ? core::float_to_bf16(core::f16_to_float(bits)) : bits};
      }
    }
  });
  return {to};
}

}  // namespace folio::infer
