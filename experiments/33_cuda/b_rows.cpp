// Step (b) of the lesson measures RMSNorm with one block per row.
#include "experiments/33_cuda/b_rows.h"

#include <cmath>

#include "experiments/33_cuda/lesson.h"
#include "experiments/33_cuda/picture.h"
#include "infer/cuda/kernels.h"

namespace folio::experiments {

void step_b(Lesson& lesson) {
  constexpr size_t kRows = 64;
  constexpr size_t kDim = 2048;
  constexpr float kEps = 1e-5F;
  const std::vector<float> xs = lesson.random(kRows * kDim, 1);
  const std::vector<float> weights = lesson.random(kDim, 2);
  std::vector<double> expected(xs.size());
  for (size_t row = 0; row < kRows; ++row) {
    double sum = 0.0;
    for (size_t i = 0; i < kDim; ++i) sum += double{xs[row * kDim + i]} * xs[row * kDim + i];
    for (size_t i = 0; i < kDim; ++i) {
      expected[row * kDim + i] = xs[row * kDim + i] / std::sqrt(sum / kDim + kEps) * weights[i];
    }
  }

  const auto x = on_device(lesson.stream(), xs);
  const auto weight = on_device(lesson.stream(), weights);
  const auto out = lesson.unwritten(xs.size());
  const Norm norm{x.as<float>(), weight.as<float>(), kEps, kRows, kDim, out.as<float>()};
  constexpr double kRoundings = (kDim / 2.0 + 5) * 0x1p-24;  // kDim roundings, halved by the square root, and 5 others
  const double bytes = (2.0 * kRows + 1) * kDim * sizeof(float);
  const auto kernel = [&](const std::string& name, const std::string& symbol, auto run) {
    return Kernel{name, symbol, bytes, [&, run] { run(lesson.stream(), norm); }, &out};
  };
  const std::vector<Kernel> kernels{
      kernel("a thread a row", "b_rows.cu:threads_norm", norm_threads),
      kernel("a block a row, shared memory", "b_rows.cu:shared_norm", norm_shared),
      kernel("a block a row, shuffles", "b_rows.cu:shuffles_norm", norm_shuffles),
      {"the engine's", "norm.cu:norm_block", bytes,
       [&] { infer::gpu::rms_norm(lesson.stream(), norm.x, norm.weight, norm.eps, norm.rows, norm.dim, norm.out); },
       &out}};
  const std::vector<Measured> all = lesson.table("b, RMSNorm of 64 rows of 2,048", kernels, {expected, kRoundings});
  if (!lesson.counts()) return;
  Report& report = lesson.report();
  const auto& [threads, shared, shuffles] = std::tie(all[0].counts, all[1].counts, all[2].counts);
  report.check_equal("b: bytes requested, the same for all", shuffles.requested_bytes(), threads.requested_bytes());
  // Each row is read twice and written once, and the weight is read once for each row.
  report.check_equal("b: sectors of a block a row", shuffles.sectors(), 4 * kRows * kDim / 8);
  report.check_above("b: sectors of a thread a row, as a multiple", ratio(threads.sectors(), shuffles.sectors()), 6.0);
  report.check_equal("b: barriers a row in shared memory", shared.barriers / kRows, 9);
  report.check_equal("b: barriers a row with shuffles", shuffles.barriers / kRows, 1);
  report.check_below("b: shared requests with shuffles, as a share",
                     ratio(shuffles.shared_requests, shared.shared_requests), 0.8);
  report.picture("b_rows.svg", who_reads("Who reads what: RMSNorm",
                                         {{"a thread a row", all[0].trace, 1}, {"a block a row", all[2].trace, 1}}));
}

}  // namespace folio::experiments
