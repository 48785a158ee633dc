// Step (c) of the lesson measures transposition with coalesced reads and writes.
#include "experiments/33_cuda/c_transposition.h"

#include "experiments/33_cuda/lesson.h"
#include "experiments/33_cuda/picture.h"

namespace folio::experiments {

void step_c(Lesson& lesson) {
  constexpr size_t kN = 512;
  const std::vector<float> values = lesson.random(kN * kN, 1);
  std::vector<double> expected(values.size());
  for (size_t row = 0; row < kN; ++row) {
    for (size_t column = 0; column < kN; ++column) expected[column * kN + row] = values[row * kN + column];
  }

  const auto in = on_device(lesson.stream(), values);
  const auto out = lesson.unwritten(values.size());
  const Transposition transposition{in.as<float>(), kN, kN, out.as<float>()};
  const auto kernel = [&](const std::string& name, const std::string& symbol, auto run) {
    return Kernel{name, symbol, 2.0 * kN * kN * sizeof(float), [&, run] { run(lesson.stream(), transposition); }, &out};
  };
  const std::vector<Kernel> kernels{kernel("straight", "c_transposition.cu:naive", transpose_naive),
                                    kernel("by a tile", "c_transposition.cu:tiled<32>", transpose_tiled),
                                    kernel("by a padded tile", "c_transposition.cu:tiled<33>", transpose_padded)};
  // The kernels only copy values, so the relative tolerance is 2⁻²⁴, the smallest relative difference of two floats.
  const std::vector<Measured> all = lesson.table("c, transposition of 512 × 512", kernels, {expected, 0x1p-24});
  if (!lesson.counts()) return;
  Report& report = lesson.report();
  const auto& [naive, tiled, padded] = std::tie(all[0].counts, all[1].counts, all[2].counts);
  report.check_equal("c: bytes requested, the same for all", padded.requested_bytes(), naive.requested_bytes());
  report.check_equal("c: sectors of a straight load", naive.load_sectors / naive.load_requests, 4);
  report.check_equal("c: sectors of a straight store", naive.store_sectors / naive.store_requests, 32);
  report.check_equal("c: sectors by a tile, less those of all data once", tiled.sectors() - tiled.distinct_sectors, 0);
  // Half of the shared-memory requests read a tile's column, whose 32 elements are in one bank: 31 conflicts each.
  report.check_equal("c: bank conflicts of a column", tiled.bank_conflicts, tiled.shared_requests / 2 * 31);
  report.check_equal("c: bank conflicts of a padded tile", padded.bank_conflicts, 0);
  report.check_equal("c: bytes that padding adds to a block's shared memory", padded.shared_bytes - tiled.shared_bytes,
                     128);
  // In a tiled kernel, a warp's accesses 0 to 7 copy four rows to the tile, and 8 to 15 read four columns of the tile
  // and store them as rows.
  report.picture("c_transposition.svg", who_reads("Who reads what: a transposition",
                                                  {{"straight: a row is loaded, a column is stored", all[0].trace, 2},
                                                   {"by a tile: its column is in one bank", {all[1].trace[8]}},
                                                   {"by a padded tile: its column is in all banks, and a row is stored",
                                                    {all[2].trace[8], all[2].trace[9]}}}));
}

}  // namespace folio::experiments
