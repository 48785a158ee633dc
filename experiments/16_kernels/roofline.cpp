#include "experiments/16_kernels/roofline.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>

#include "core/error.h"
#include "experiments/16_kernels/vectors.h"
#include "experiments/common/read_memory.h"
#include "train/report/line_chart.h"

namespace folio::experiments {

double Roof::at(double operations_per_byte) const {
  return std::min(operations_per_s, operations_per_byte * bytes_per_s);
}

Roof measure_roof(core::ThreadPool& pool, size_t megabytes, double seconds) {
  constexpr size_t kRounds = 100'000;
  const VectorStep& step = vector_step();
  std::vector<double> sums(pool.size() * 8);  // one cache line per thread, to avoid false sharing
  const double compute_seconds = best_time(seconds, [&] {
    pool.parallel_for(pool.size(), 1, [&](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) sums[i * 8] += step.multiply_adds(kRounds);
    });
  });
  const double operations = 2.0 * static_cast<double>(kRounds * kPeakSums * step.lanes * pool.size());

  // Each call reads the next 32 MiB, which are no longer cached. Short calls are rarely slowed by other programs.
  constexpr size_t kPiece = (size_t{32} << 20U) / sizeof(uint64_t);
  const std::vector<uint64_t> memory((megabytes << 20U) / sizeof(uint64_t), 1);
  const size_t share = (kPiece + pool.size() - 1) / pool.size();
  size_t piece = 0;
  const double read_seconds = best_time(seconds, [&] {
    pool.parallel_for(kPiece, share, [&](size_t begin, size_t end) {
      const auto own = std::span(memory).subspan(piece + begin, end - begin);
      sums[begin / share * 8] += static_cast<double>(read_all(own));
    });
    piece = (piece + kPiece) % memory.size();
  });
  core::require(std::isfinite(sums[0]), "the sums are used, so that they are computed");
  return {operations / compute_seconds, static_cast<double>(kPiece * sizeof(uint64_t)) / read_seconds};
}

std::string roofline_picture(const std::string& title, const Roof& one_thread, const Roof& all_threads,
                             const std::vector<RooflinePoint>& points) {
  double low = 0.1, high = 100.0;
  for (const RooflinePoint& p : points) {
    low = std::min(low, p.operations_per_byte / 2.0);
    high = std::max(high, p.operations_per_byte * 2.0);
  }
  train::LineChart chart{.title = title,
                         .x_label = "operations for each byte that comes from memory",
                         .y_label = "billions of operations in a second",
                         .log_x = true,
                         .log_y = true};
  for (const auto& [name, roof] : {std::pair{"roof, all threads", all_threads}, {"roof, one thread", one_thread}}) {
    const double corner = roof.operations_per_s / roof.bytes_per_s;
    auto& line = chart.series.emplace_back(train::LineChart::Series{name, {}});
    for (const double x : {low, corner, high}) line.points.push_back({x, roof.at(x) / 1e9});
  }
  for (const RooflinePoint& p : points) {
    chart.series.push_back({p.name, {{p.operations_per_byte, p.operations_per_s / 1e9}}});
  }
  return chart.svg();
}

}  // namespace folio::experiments
