#include "infer/cuda/pack.h"

#include <cstring>
#include <vector>

#include "core/error.h"
#include "core/float16.h"
#include "core/quants.h"

namespace folio::infer {
namespace {

using gpu::Kind;
using gpu::PackedMatrix;

Kind kind_of(const core::TensorView& tensor) {
  if (tensor.type == core::DType::F32) return Kind::F32;
  if (tensor.type == core::DType::F16) return Kind::F16;
  if (tensor.type == core::DType::BF16) return Kind::BF16;
  core::require(core::quant_info(tensor.type) != nullptr, "tensor {} has type {}, which the GPU kernels do not support",
                tensor.name, core::info(tensor.type).name);
  return Kind::Groups;
}

// Packs a row of F32, F16 or BF16 without conversion.
void pack_numbers(const PackedMatrix& m, const std::byte* row, size_t r, uint8_t* tile) {
  const size_t bytes = gpu::number_bytes(m.kind);
  for (size_t c = 0; c < m.k; ++c) {
    std::memcpy(tile + c / gpu::kBlockK * m.block_bytes() + m.number_offset(r, c % gpu::kBlockK), row + c * bytes,
                bytes);
  }
}

void put_scale(const PackedMatrix& m, uint8_t* scales, size_t index, float value) {
  if (m.half_scales) {
    const uint16_t bits = core::float_to_f16(value);
    std::memcpy(scales + index * sizeof bits, &bits, sizeof bits);
  } else {
    std::memcpy(scales + index * sizeof value, &value, sizeof value);
  }
}

// An unpacked row of a block-quantized tensor: the quants, and the scales and minimums of the groups.
struct Row {
  std::vector<uint8_t> quants;
  std::vector<float> scales;
  std::vector<float> minimums;
};

void pack_groups(const PackedMatrix& m, int32_t zero_point, const Row& row, size_t r, uint8_t* tile) {
  for (size_t column = 0; column < m.k; ++column) {
    uint8_t* block = tile + column / gpu::kBlockK * m.block_bytes();
    const size_t c = column % gpu::kBlockK;
    uint8_t& number = block[m.number_offset(r, c)];
    if (m.bits == 8) {
      number = static_cast<uint8_t>(row.quants[column] - zero_point);
    } else {
      number = static_cast<uint8_t>(number | row.quants[column] << m.nibble_shift(c));
    }
    if (column % m.group != 0) continue;
    uint8_t* scales = block + m.number_block_bytes();
    put_scale(m, scales, m.scale_index(r, c), row.scales[column / m.group]);
    if (m.minimums) {
      put_scale(m, scales + m.scale_block_bytes(), m.scale_index(r, c), row.minimums[column / m.group]);
    }
  }
}

}  // namespace

PackedMatrix packed_layout(const core::TensorView& tensor) {
  PackedMatrix m{.n_out = static_cast<uint32_t>(tensor.shape.front()),
                 .k = static_cast<uint32_t>(tensor.shape.back()),
                 .kind = kind_of(tensor)};
  if (m.kind != Kind::Groups) return m;
  const core::QuantInfo& q = *core::quant_info(tensor.type);
  m.bits = q.bits == 4 && !q.fp4 ? 4 : 8;
  m.group = static_cast<uint8_t>(q.group);
  m.zero_point = m.bits == 4 ? static_cast<uint8_t>(q.zero_point) : 0;
  m.minimums = q.minimums;
  m.half_scales = !q.byte_scales;
  return m;
}

void pack_tiles(const core::TensorView& tensor, const PackedMatrix& m, size_t first, std::span<uint8_t> tiles,
                core::ThreadPool& pool) {
  const size_t row_bytes = tensor.bytes.size() / m.n_out;
  const int32_t zero_point = m.kind == Kind::Groups ? core::quant_info(tensor.type)->zero_point : 0;
  pool.parallel_for(tiles.size() / m.tile_bytes(), 1, [&](size_t begin, size_t end) {
    Row row;
    if (m.kind == Kind::Groups) {
      row.quants.resize(m.k);
      row.scales.resize(m.k / m.group);
      row.minimums.resize(m.minimums ? m.k / m.group : 0);
    }
    for (size_t i = begin; i < end; ++i) {
      uint8_t* tile = tiles.data() + i * m.tile_bytes();
      std::memset(tile, 0, m.tile_bytes());
      for (size_t r = 0; r < gpu::kTileRows && (first + i) * gpu::kTileRows + r < m.n_out; ++r) {
        const auto bytes = tensor.bytes.subspan(((first + i) * gpu::kTileRows + r) * row_bytes, row_bytes);
        if (m.kind == Kind::Groups) {
          core::unpack(tensor.type, bytes, row.quants, row.scales, row.minimums);
          pack_groups(m, zero_point, row, r, tile);
        } else {
          pack_numbers(m, bytes.data(), r, tile);
        }
      }
    }
  });
}

}  // namespace folio::infer
