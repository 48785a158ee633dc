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
    weight = on_device(stream, w);
    x = on_device(stream, xs);
    rows = {weight.as<uint16_t>(), x.as<uint16_t>(), n_out, n_rows, k, nullptr};
    tiles = {{.n_out = static_cast<uint32_t>(n_out), .k = static_cast<uint32_t>(k), .kind = Kind::F16},
             {.n_rows = static_cast<uint32_t>(n_rows), .k = static_cast<uint32_t>(k), .kind = Kind::F16},
             nullptr};
    packed_weight = on_device(stream, in_tiles(tiles.weight, w));
    packed_x = on_device(stream, in_tiles(tiles.x, xs));
    tiles.weight.data = packed_weight.as<uint8_t>();
    tiles.x.data = packed_x.as<uint8_t>();
  }
  DeviceMemory weight, x, packed_weight, packed_x;
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
        const bool all_orders = n_out + n_rows + k == 32 + 32 + 16;
        const auto result = [&](auto run, auto product) {
          return outputs_of(stream, n_out * n_rows, all_orders, [&](float* out) {
            product.out = out;
            run(stream, product);
          });
        };
        EXPECT_EQ(result(product_fmaf, o.rows), o.expected) << n_out << " " << n_rows << " " << k;
        EXPECT_EQ(result(product_from_rows, o.rows), o.expected) << n_out << " " << n_rows << " " << k;
        EXPECT_EQ(result(product_packed, o.tiles), o.expected) << n_out << " " << n_rows << " " << k;
        EXPECT_EQ(result(product_eight_tiles, o.tiles), o.expected) << n_out << " " << n_rows << " " << k;
      }
    }
  }
}

}  // namespace
}  // namespace folio::experiments
