// Study: what makes a matrix product fast? The results are explained in README.md.
#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "experiments/16_kernels/roofline.h"
#include "experiments/16_kernels/step_list.h"
#include "experiments/16_kernels/vectors.h"
#include "experiments/common/report.h"

namespace folio::experiments {
namespace {

int64_t different(const std::vector<float>& a, const std::vector<float>& b) {
  int64_t n = 0;
  for (size_t i = 0; i < a.size(); ++i) n += std::memcmp(&a[i], &b[i], sizeof(float)) != 0 ? 1 : 0;
  return n;
}

struct Measured {
  double loads = 0.0;  // loads per multiply-add
  double bytes = 0.0;
};

void improve(Report& report, const std::string& what, Problem problem, const Roof& one, const Roof& all,
             core::ThreadPool& pool) {
  const Product& p = problem.product;
  const auto operations = 2.0 * static_cast<double>(p.n * p.r * p.k);
  Report::Rows rows;
  std::vector<RooflinePoint> points;
  std::vector<Measured> counts;
  std::vector<std::vector<float>> results;
  double largest_error = 0.0;
  int64_t out_of_order = 0;
  for (const Step& step : steps(pool, p.n)) {
    if (step.count) {
      CountingMemory memory(problem.numbers.data(), problem.numbers.size());
      step.count(memory, p);
      report.check_equal(fmt::format("{}, {}: multiply-adds, counted", what, step.name), memory.multiply_adds(),
                         p.n * p.r * p.k);
      counts.push_back({ratio(memory.loads(), memory.multiply_adds()), static_cast<double>(memory.bytes())});
    }
    std::fill_n(p.out, p.n * p.r, std::nanf(""));
    const double seconds = best_time(report.short_form() ? 0.0 : 0.5, [&] { step.run(p); });
    results.push_back(problem.results());
    largest_error = larger(largest_error, error_by_bound(p, results.back()));
    if (step.in_order) out_of_order += different(results.front(), results.back());
    const double intensity = operations / counts.back().bytes;
    const double roof = (step.threads ? all : one).at(intensity);
    rows.push_back({step.name, counts.back().loads, counts.back().bytes / 1e6, intensity, 1e3 * seconds,
                    operations / seconds / 1e9, 100.0 * operations / seconds / roof});
    points.push_back({step.name, intensity, operations / seconds});
  }
  report.table(fmt::format("{}: {} x {} weights, {} input{}", what, p.r, p.k, p.n, p.n == 1 ? "" : "s"),
               {"step", "loads per multiply-add", "MB fetched", "operations per byte", "ms", "GFLOP/s", "% of roof"},
               rows);
  const double weights = static_cast<double>(p.r * p.k * sizeof(float));
  const double everything = static_cast<double>(problem.numbers.size() * sizeof(float));
  report.check_above(what + ": bytes by columns, as a multiple of those by rows", counts[0].bytes / counts[1].bytes,
                     10.0);
  report.check_above(what + ": bytes by rows, as a multiple of the weights once for each input",
                     counts[1].bytes / (static_cast<double>(p.n) * weights), 0.99);
  report.check_below(what + ": bytes with each weight once: their distance from all values once, as a share",
                     std::abs(counts[2].bytes / everything - 1.0), 0.01);
  const auto lanes = static_cast<double>(vector_step().lanes);
  report.check_below(what + ": loads in vectors, as a share of those of tiles", counts[4].loads / counts[3].loads,
                     1.001 / lanes);
  report.check_equal(what + ": results that differ in a bit among the steps that add in order", out_of_order, 0);
  report.check_equal(what + ": results that differ in a bit between one thread and all",
                     different(results[4], results[5]), 0);
  report.check_below(what + ": the largest error of all steps, as a share of its bound", largest_error, 1.0);
  report.picture(p.n == 1 ? "matrix_vector.svg" : "matrix_matrix.svg",
                 roofline_picture(what + " on this machine's roofline", one, all, points));
}

void study(Report& report) {
  core::ThreadPool pool;
  core::ThreadPool alone(1);
  const double seconds = report.short_form() ? 0.0 : 2.0;
  const size_t megabytes = report.short_form() ? 64 : 512;
  const Roof one = measure_roof(alone, megabytes, seconds);
  const Roof all = measure_roof(pool, megabytes, seconds);
  for (const auto& [roof, threads] : {std::pair{one, size_t{1}}, {all, pool.size()}}) {
    const std::string of = threads == 1 ? "one thread" : "all threads";
    report.value("GFLOP/s at most, " + of, roof.operations_per_s / 1e9);
    report.value("GB/s from memory, " + of, roof.bytes_per_s / 1e9);
  }
  const size_t small = report.short_form() ? 8 : 1;
  improve(report, "matrix by vector", Problem(1, 8192, 2048 / small, report.seed()), one, all, pool);
  improve(report, "matrix by matrix", Problem(16, 8192, 512 / small, report.seed()), one, all, pool);
}

}  // namespace
}  // namespace folio::experiments

int main(int argc, char** argv) {
  return folio::experiments::run_study(argc, argv, "16_kernels", folio::experiments::study);
}
