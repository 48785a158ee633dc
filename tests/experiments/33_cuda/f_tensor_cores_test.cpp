#include "experiments/33_cuda/f_tensor_cores.h"

#include "core/float16.h"
#include "experiments/33_cuda/tiles.h"
#include "infer/cuda/kernels.h"
#include "tests/experiments/33_cuda/lesson_support.h"

namespace folio::experiments {
namespace {

using infer::gpu::Kind;

/// A matrix product: F16 weights (n_out, k), inputs (n_rows, k) and the expected output (n_rows, n_out). All values are
/// integers, so that sums are exact in any order.
struct Operands {
  Operands(Stream& stream, size_t n_out, size_t n_rows, size_t k) {
    std::vector<uint16_t> w(n_out * k);
    std::vector<uint16_t> xs(n_rows * k);
    for (size_t i = 0; i < w.size(); ++i) w[i] = core::float_to_f16(static_cast<float>(i * 7 % 19) - 9.0F);
    for (size_t i = 0; i < xs.size(); ++i) xs[i] = core::float_to_f16(static_cast<float>(i * 5 % 23) - 11.0F);
    expected.resize(n_rows * n_out);
    for (size_t row = 0; row < n_rows; ++row) {
      for (size_t output = 0; output < n_out; ++output) {
        for (size_t i = 0; i < k; ++i) {
          expected[row * n_out + output] += core::f16_to_float(w[output * k + i]) * core::f16_to_float(xs[row * k + i]);
        }
      }
    }
    weight = uploaded(stream, w);
    x = uploaded(stream, xs);
    out = unwritten(stream, expected.size() * sizeof(float));
    rows = {weight.as<uint16_t>(), x.as<uint16_t>(), n_out, n_rows, k, out.as<float>()};
    tiles = {{.n_out = static_cast<uint32_t>(n_out), .k = static_cast<uint32_t>(k), .kind = Kind::F16},
             {.n_rows = static_cast<uint32_t>(n_rows), .k = static_cast<uint32_t>(k), .kind = Kind::F16},
             out.as<float>()};
    packed_weight = uploaded(stream, in_tiles(tiles.weight, w));
    packed_x = uploaded(stream, in_tiles(tiles.x, xs));
    tiles.weight.data = packed_weight.as<uint8_t>();
    tiles.x.data = packed_x.as<uint8_t>();
  }
  DeviceMemory weight, x, packed_weight, packed_x, out;
  TileProduct rows;
  PackedProduct tiles;
  std::vector<float> expected;
};

TEST(CudaTensorCores, WholeTiles) {
  Stream stream(0);
  for (const size_t n_out : {32U, 96U}) {
    for (const size_t n_rows : {32U, 64U}) {
      for (const size_t k : {16U, 112U, 144U, 256U}) {
        const Operands o(stream, n_out, n_rows, k);
        const auto result = [&](auto run, const auto& product) {
          stream.fill(o.out.as<float>(), 0xFF, o.out.bytes());
          run(stream, product);
          return on_host<float>(stream, o.out);
        };
        EXPECT_EQ(result(product_fmaf, o.rows), o.expected) << n_out << " " << n_rows << " " << k;
        EXPECT_EQ(result(product_from_rows, o.rows), o.expected) << n_out << " " << n_rows << " " << k;
        EXPECT_EQ(result(product_packed, o.tiles), o.expected) << n_out << " " << n_rows << " " << k;
        EXPECT_EQ(result(product_eight_tiles, o.tiles), o.expected) << n_out << " " << n_rows << " " << k;
        if (n_out + n_rows + k != 32 + 32 + 16) continue;
        same_in_all_orders([&] { return result(product_fmaf, o.rows); });
        same_in_all_orders([&] { return result(product_from_rows, o.rows); });
        same_in_all_orders([&] { return result(product_eight_tiles, o.tiles); });
      }
    }
  }
}

// 32 outputs, 32 rows and 128 columns are 2 · 4 tiles of sums. Each needs 8 products of 16 · 8 · 16 multiply-adds.
TEST(CudaTensorCores, Counts) {
  Stream stream(0);
  const Operands o(stream, 32, 32, 128);
  const Counts from_rows = counts_of([&] { product_from_rows(stream, o.rows); });
  EXPECT_EQ(from_rows.tile_products, 64U);
  EXPECT_EQ(from_rows.tile_multiply_adds, 64U * 16 * 8 * 16);
  EXPECT_EQ(from_rows.load_requests, 64U * 6);     // each lane loads four words of A and two of B
  EXPECT_EQ(from_rows.load_sectors, 64U * 6 * 8);  // eight rows; in each, four lanes load 16 bytes
  EXPECT_EQ(from_rows.store_requests, 8U * 4);
  EXPECT_EQ(from_rows.store_sectors, 8U * 4 * 4);  // four rows; in each, eight lanes store 32 bytes
  // A has 256 sectors (8 KiB), B 256, and the output 128.
  EXPECT_EQ(from_rows.distinct_sectors, 256U + 256 + 128);
  // A request loads 512 bytes: a tile of A, or two tiles of B.
  const Counts packed = counts_of([&] { product_packed(stream, o.tiles); });
  EXPECT_EQ(packed.load_requests, 64U + 32);
  EXPECT_EQ(packed.load_sectors, (64U + 32) * 16);
  // One warp loads each tile once.
  const Counts eight = counts_of([&] { product_eight_tiles(stream, o.tiles); });
  EXPECT_EQ(eight.blocks, 1U);
  EXPECT_EQ(eight.tile_products, 64U);
  EXPECT_EQ(eight.load_sectors, 256U + 256);
  // For each column, a warp loads the weights of 32 rows and an input, and computes an fmaf per output.
  const Counts fmafs = counts_of([&] { product_fmaf(stream, o.rows); });
  EXPECT_EQ(fmafs.multiply_adds, 32U * 32 * 128);
  EXPECT_EQ(fmafs.load_sectors, 32U * 128 * (32 + 1));
}

}  // namespace
}  // namespace folio::experiments
