// Step (f) of the lesson measures products on tensor cores.
#include "experiments/33_cuda/f_tensor_cores.h"

#include <fmt/format.h>

#include "core/float16.h"
#include "experiments/33_cuda/lesson.h"
#include "experiments/33_cuda/tiles.h"
#include "infer/cuda/kernels.h"
#include "train/report/svg.h"

namespace folio::experiments {
namespace {

namespace gpu = infer::gpu;

constexpr size_t kProductSize = 128;  // rows, columns and inner dimension
constexpr unsigned kShownLane = 5;

/// Maps values in [-1, 1) to F16 values from 0 to 1. Positive terms keep the relative error of a sum small.
std::vector<uint16_t> positive_halves(const std::vector<float>& values) {
  std::vector<uint16_t> halves;
  for (const float v : values) halves.push_back(core::float_to_f16((v + 1.0F) / 2.0F));
  return halves;
}

/// A matrix in the picture. Each of its elements is drawn with `wide` × `high` pixels.
struct DrawnMatrix {
  double left;
  double top;
  double wide = 22;
  double high = 17;

  /// Draws `rows` × `columns` elements from (row, column) as one box, labeled with the number of their lane.
  [[nodiscard]] std::string draw(size_t row, size_t column, size_t rows, size_t columns, unsigned lane) const {
    const double x = left + static_cast<double>(column) * wide;
    const double y = top + static_cast<double>(row) * high;
    const double width = static_cast<double>(columns) * wide;
    const double height = static_cast<double>(rows) * high;
    return fmt::format(R"(<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" class="{}" fill-opacity=".5"/>)",
                       x + 1, y + 1, width - 2, height - 2,
                       lane == kShownLane ? train::svg::colour(1) + " fill" : "card grid") +
           train::svg::text_at(x + width / 2, y + height / 2 + 4, std::to_string(lane), "middle",
                               lane == kShownLane ? "strong" : "");
  }
};

/// Draws which lane holds which elements of the first tile, from the accesses of product_from_rows' first warp.
std::string layout_of_lanes(const std::vector<gpu::host::WarpAccess>& trace, const TileProduct& p) {
  const DrawnMatrix weight{40, 400};
  const DrawnMatrix x{420, 100};
  const DrawnMatrix out{420, 400};
  std::string body =
      train::svg::text_at(40, 392, "A: 16 outputs' weights, 16 columns, two in a word", "start", "strong") +
      train::svg::text_at(420, 84, "B: 8 rows of inputs, transposed", "start", "strong") +
      train::svg::text_at(420, 392, "sums, 16 outputs of 8 rows", "start", "strong");
  for (const gpu::host::WarpAccess& a : trace) {
    for (unsigned lane = 0; lane < 32; ++lane) {
      const auto place = [&](const auto* first, size_t columns) {  // row and column of the lane's address
        const size_t i = (a.address[lane] - reinterpret_cast<uint64_t>(first)) / sizeof *first;
        return std::pair{i / columns, i % columns};
      };
      if (a.store) {
        const auto [row, output] = place(p.out, p.n_out);
        body += out.draw(output, row, 1, 1, lane);
      } else if (const auto [output, i] = place(p.weight, p.k); output < gpu::kTileRows && i < 16) {
        body += weight.draw(output, i, 1, 2, lane);
      } else if (const auto [row, j] = place(p.x, p.k); row < gpu::kTileColumns && j < 16) {
        body += x.draw(j, row, 2, 1, lane);
      }
    }
  }
  return train::svg::document(640, 700, "Who holds what: mma.sync, 16 × 8 × 16",
                              fmt::format("the number of the lane; what lane {} holds is filled", kShownLane), body);
}

}  // namespace

void step_f(Lesson& lesson) {
  constexpr size_t kN = kProductSize;
  const std::vector<uint16_t> weights = positive_halves(lesson.random(kN * kN, 1));
  const std::vector<uint16_t> xs = positive_halves(lesson.random(kN * kN, 2));
  std::vector<double> expected(kN * kN);
  for (size_t i = 0; i < kN * kN * kN; ++i) {
    const size_t row = i / kN / kN;
    const size_t output = i / kN % kN;
    expected[row * kN + output] +=
        double{core::f16_to_float(weights[output * kN + i % kN])} * core::f16_to_float(xs[row * kN + i % kN]);
  }

  gpu::Stream& stream = lesson.stream();
  const auto weight = on_device(stream, weights);
  const auto x = on_device(stream, xs);
  const auto out = lesson.unwritten(kN * kN);
  const TileProduct rows{weight.as<uint16_t>(), x.as<uint16_t>(), kN, kN, kN, out.as<float>()};
  PackedProduct tiles{
      {.n_out = kN, .k = kN, .kind = gpu::Kind::F16}, {.n_rows = kN, .k = kN, .kind = gpu::Kind::F16}, out.as<float>()};
  const auto packed_weight = on_device(stream, in_tiles(tiles.weight, weights));
  const auto packed_x = on_device(stream, in_tiles(tiles.x, xs));
  const auto scales = on_device(stream, std::vector<float>(kN, 1.0F));
  tiles.weight.data = packed_weight.as<uint8_t>();
  tiles.x.data = packed_x.as<uint8_t>();
  tiles.x.row_scales = scales.as<float>();

  constexpr double kBytes = (2.0 * 2 + 4) * kN * kN;
  const auto kernel = [&](const std::string& name, const std::string& symbol, auto run, const auto& product) {
    return Kernel{name, symbol, kBytes, [&, run] { run(stream, product); }, &out};
  };
  const gpu::Matmul matmul{.weight = tiles.weight, .out = out.as<float>()};
  const std::vector<Kernel> kernels{
      kernel("a thread an output, fmaf", "f_tensor_cores.cu:one_output", product_fmaf, rows),
      kernel("a warp a tile, from rows", "f_tensor_cores.cu:tile_from_rows", product_from_rows, rows),
      kernel("a warp a tile, packed", "f_tensor_cores.cu:tile_packed", product_packed, tiles),
      kernel("a warp 2 × 4 tiles, packed", "f_tensor_cores.cu:eight_tiles", product_eight_tiles, tiles),
      {"the engine's", "product_tiled.cu:product_tiled<Floats<1>, false>", kBytes,
       [&] { gpu::multiply(stream, tiles.x, &matmul, 1); }, &out}};
  // Products of F16 values are exact in F32. The tolerance covers their sums, which a GPU may truncate.
  const std::vector<Measured> all =
      lesson.table("f, product of 128³ in F16", kernels, {expected, static_cast<double>(kN) * 0x1p-23});
  if (!lesson.counts()) return;
  Report& report = lesson.report();
  const auto& [fmafs, from_rows, packed, eight, engine] =
      std::tie(all[0].counts, all[1].counts, all[2].counts, all[3].counts, all[4].counts);
  const auto equal = [&](const std::string& what, uint64_t measured, uint64_t value) {
    report.check_equal("f: " + what, measured, value);
  };
  constexpr size_t kProducts = kN / 16 * kN / 8 * kN / 16;
  equal("multiply-adds of the tiles, as of fmaf", from_rows.tile_multiply_adds, fmafs.multiply_adds);
  equal("products of a tile", packed.tile_products, kProducts);
  equal("the engine's products of a tile", engine.tile_products, kProducts);
  equal("loads a product, from rows", from_rows.load_requests, 6 * kProducts);
  equal("sectors loaded a product, from rows", from_rows.load_sectors, 48 * kProducts);
  equal("sectors loaded a product, packed", packed.load_sectors, 24 * kProducts);
  equal("sectors loaded a product, 2 × 4 tiles", eight.load_sectors, 8 * kProducts);
  // The engine's kernel loads weights and inputs once, each 32 KiB or 1,024 sectors. It also loads 512 sectors of
  // scales.
  equal("sectors that the engine's kernel loads", engine.load_sectors, 2 * 1024 + 512);
  report.picture("f_tensor_cores.svg", layout_of_lanes(all[1].trace, rows));
}

}  // namespace folio::experiments
