// Step (e) of the lesson measures the product of two matrices.
#include "experiments/33_cuda/e_matrix.h"

#include <cmath>

#include "core/float16.h"
#include "experiments/33_cuda/engine_product.h"
#include "experiments/33_cuda/lesson.h"
#include "experiments/33_cuda/picture.h"

namespace folio::experiments {

void step_e(Lesson& lesson) {
  constexpr size_t kN = 128;
  // Returns multiples of 1/128 below 1. They are exact in F16, and sums of 128 products are exact in F32, in any order.
  const auto multiples = [&](uint64_t stream) {
    std::vector<float> values = lesson.random(kN * kN, stream);
    for (float& v : values) v = std::floor(std::abs(v) * 128) / 128;
    return values;
  };
  const std::vector<float> as = multiples(1);
  const std::vector<float> bs = multiples(2);
  std::vector<uint16_t> transposed(bs.size());  // b in the layout of the engine's weights: (columns, inner)
  std::vector<double> expected(kN * kN);
  for (size_t row = 0; row < kN; ++row) {
    for (size_t i = 0; i < kN; ++i) {
      transposed[i * kN + row] = core::float_to_f16(bs[row * kN + i]);
      for (size_t column = 0; column < kN; ++column) {
        expected[row * kN + column] += double{as[row * kN + i]} * bs[i * kN + column];
      }
    }
  }

  const auto a = on_device(lesson.stream(), as);
  const auto b = on_device(lesson.stream(), bs);
  const auto c = lesson.unwritten(kN * kN);
  const MatrixProduct product{a.as<float>(), b.as<float>(), kN, kN, kN, c.as<float>()};
  const EngineProduct engine(lesson.stream(), {.n_out = kN, .k = kN, .kind = infer::gpu::Kind::F16}, transposed, {},
                             a.as<float>(), kN);
  constexpr double kBytes = 3.0 * kN * kN * sizeof(float);
  const auto kernel = [&](const std::string& name, const std::string& symbol, auto run) {
    return Kernel{name, symbol, kBytes, [&, run] { run(lesson.stream(), product); }, &c};
  };
  const std::vector<Kernel> kernels{kernel("a thread an output", "e_matrix.cu:naive", matrix_naive),
                                    kernel("tiles in shared memory", "e_matrix.cu:tiled", matrix_tiled),
                                    kernel("4 × 4 outputs a thread", "e_matrix.cu:registers", matrix_registers),
                                    {"the engine's, F16", "product_tiled.cu:product_tiled<Floats<1>, false>",
                                     kBytes * 2 / 3, [&] { engine.run(lesson.stream(), c.as<float>()); }, &c}};
  const std::vector<Measured> all = lesson.table("e, 128 × 128 by 128 × 128", kernels, {expected, 0x1p-24});
  if (!lesson.counts()) return;
  Report& report = lesson.report();
  const auto& [naive, tiled, registers, engines] = std::tie(all[0].counts, all[1].counts, all[2].counts, all[3].counts);
  report.check_equal("e: multiply-adds of each of the three", registers.multiply_adds, kN * kN * kN);
  report.check_equal("e: the engine's multiply-adds, by tensor cores", engines.tile_multiply_adds, kN * kN * kN);
  report.check_equal("e: loads of a thread an output, as a multiple of those by tiles",
                     naive.load_requests / tiled.load_requests, 32);
  report.check_equal("e: sectors loaded by a thread an output, as a multiple of those by tiles",
                     naive.load_sectors / tiled.load_sectors, 20);
  report.check_equal("e: sectors loaded by tiles of 32, as a multiple of those by tiles of 64",
                     tiled.load_sectors / registers.load_sectors, 2);
  report.check_above("e: shared requests of tiles, as a multiple of those with 4 × 4 outputs",
                     ratio(tiled.shared_requests, registers.shared_requests), 15.0);
  // A shared-memory request of 16 bytes per lane takes four wavefronts; a request of 4 bytes per lane takes one.
  report.check_above("e: wavefronts of tiles, as a multiple of those with 4 × 4 outputs",
                     ratio(tiled.shared_wavefronts, registers.shared_wavefronts), 3.8);
  Report::Rows rows;
  for (size_t i = 0; i < all.size(); ++i) {
    const auto& n = all[i].counts;
    const auto operations = 2.0 * static_cast<double>(n.multiply_adds + n.tile_multiply_adds);
    auto& row = rows.emplace_back(std::vector<Report::Json>{kernels[i].name});
    for (const uint64_t bytes : {32 * n.sectors(), 32 * n.distinct_sectors, 128 * n.shared_wavefronts}) {
      bytes == 0 ? row.emplace_back(nullptr) : row.emplace_back(operations / static_cast<double>(bytes));
    }
  }
  report.table("e, operations per byte", {"kernel", "of all sectors", "of distinct sectors", "of shared wavefronts"},
               rows);
  // Accesses 0 to 3 of a traced warp fill the tiles. Then, in the kernel `tiled`, access 4 loads a row of b, and
  // access 5 an element of a. In `registers`, accesses 4 to 7 load four rows of a, and 8 to 11 load rows of b.
  report.picture(
      "e_matrix.svg",
      who_reads("Who reads what: a matrix by a matrix",
                {{"a thread an output: a row of b, a number of a", all[0].trace, 2},
                 {"tiles: a row of b, a number of a, from shared memory", {all[1].trace[4], all[1].trace[5]}},
                 {"4 × 4 outputs a thread: four numbers at once", {all[2].trace[4], all[2].trace[8]}}}));
}

}  // namespace folio::experiments
