#include "experiments/33_cuda/f_tensor_cores.h"
#include "infer/cuda/mma.h"
#include "infer/cuda/numbers.h"

namespace folio::experiments {

using namespace infer::gpu;  // NOLINT: kernels use CUDA's names unqualified

namespace {

constexpr unsigned kFmafRows = 8;

__global__ __launch_bounds__(kWarp* kFmafRows) void one_output(TileProduct p) {
  const size_t output = size_t{blockIdx.x} * kWarp + threadIdx.x;
  const size_t row = size_t{blockIdx.y} * kFmafRows + threadIdx.y;
  float sum = 0.0F;
  for (size_t i = 0; i < p.k; ++i) sum = fmaf(from_f16(p.weight[output * p.k + i]), from_f16(p.x[row * p.k + i]), sum);
  p.out[row * p.n_out + output] = sum;
}

/// Returns the F16 values in columns column + 2 t and column + 2 t + 1 of `row`, where t is the lane's index in its
/// group of four lanes. `rows` has k columns.
__device__ uint32_t pair(const uint16_t* rows, size_t k, size_t row, size_t column) {
  return *reinterpret_cast<const uint32_t*>(rows + row * k + column + 2 * lane_in_group());
}

/// Writes a lane's four sums of the tile that begins at first_output and first_row.
__device__ void put(const Sums& sums, size_t first_output, size_t first_row, size_t n_out, float* out) {
  for (unsigned i = 0; i < 4; ++i) {
    const size_t output = first_output + lane_group() + i / 2 * 8;
    const size_t row = first_row + 2 * lane_in_group() + i % 2;
    out[row * n_out + output] = sums.c[i];
  }
}

__global__ __launch_bounds__(kWarp) void tile_from_rows(TileProduct p) {
  const size_t output = size_t{blockIdx.x} * kTileRows;
  const size_t row = size_t{blockIdx.y} * kTileColumns;
  const unsigned g = lane_group();
  Sums sums{};
  for (size_t i = 0; i < p.k; i += 16) {
    const TileA a{{pair(p.weight, p.k, output + g, i), pair(p.weight, p.k, output + g + 8, i),
                   pair(p.weight, p.k, output + g, i + 8), pair(p.weight, p.k, output + g + 8, i + 8)}};
    const TileB b{{pair(p.x, p.k, row + g, i), pair(p.x, p.k, row + g, i + 8)}};
    multiply_f16(sums, a, b);
  }
  put(sums, output, row, p.n_out, p.out);
}

/// Computes kM × kN tiles of outputs with one warp. A lane loads 16 bytes at a time: its part of one tile of weights,
/// or of two tiles of inputs.
template <int kM, int kN>
__device__ void multiply_tiles(const PackedProduct& p) {
  const size_t m = size_t{blockIdx.x} * kM;
  const size_t n = size_t{blockIdx.y} * kN;
  const uint8_t* weight = p.weight.data + m * p.weight.tile_bytes() + lane_id() * 16;
  const uint8_t* x = p.x.data + n * p.x.tile_bytes() + lane_id() * 16;
  Sums sums[kM][kN] = {};
  for (size_t i = 0; i < p.weight.k_blocks() * 8; i += 2) {  // two tiles along k at a time
    Words b[kN];
    for (int c = 0; c < kN; ++c) b[c] = load(x + c * p.x.tile_bytes() + i / 2 * 512);
    for (int half = 0; half < 2; ++half) {
      for (int r = 0; r < kM; ++r) {
        const Words a = load(weight + r * p.weight.tile_bytes() + (i + half) * 512);
        for (int c = 0; c < kN; ++c) {
          multiply_f16(sums[r][c], {{a.w[0], a.w[1], a.w[2], a.w[3]}}, {{b[c].w[2 * half], b[c].w[2 * half + 1]}});
        }
      }
    }
  }
  for (int r = 0; r < kM; ++r) {
    for (int c = 0; c < kN; ++c) put(sums[r][c], (m + r) * kTileRows, (n + c) * kTileColumns, p.weight.n_out, p.out);
  }
}

__global__ __launch_bounds__(kWarp) void tile_packed(PackedProduct p) { multiply_tiles<1, 1>(p); }
__global__ __launch_bounds__(kWarp) void eight_tiles(PackedProduct p) { multiply_tiles<2, 4>(p); }

Grid blocks(size_t n_out, size_t outputs, size_t n_rows, size_t rows) {
  return {static_cast<unsigned>(ceil_div(n_out, outputs)), static_cast<unsigned>(ceil_div(n_rows, rows))};
}

}  // namespace

void product_fmaf(Stream& stream, const TileProduct& p) {
  launch(one_output, blocks(p.n_out, kWarp, p.n_rows, kFmafRows), {kWarp, kFmafRows}, 0, stream, p);
}
void product_from_rows(Stream& stream, const TileProduct& p) {
  launch(tile_from_rows, blocks(p.n_out, kTileRows, p.n_rows, kTileColumns), {kWarp}, 0, stream, p);
}
void product_packed(Stream& stream, const PackedProduct& p) {
  launch(tile_packed, blocks(p.weight.n_out, kTileRows, p.x.n_rows, kTileColumns), {kWarp}, 0, stream, p);
}
void product_eight_tiles(Stream& stream, const PackedProduct& p) {
  launch(eight_tiles, blocks(p.weight.n_out, 2 * kTileRows, p.x.n_rows, 4 * kTileColumns), {kWarp}, 0, stream, p);
}

}  // namespace folio::experiments
