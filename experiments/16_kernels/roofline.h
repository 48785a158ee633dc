// Measures a machine's roofline and draws it: the limits of arithmetic throughput and of memory bandwidth (S. Williams,
// A. Waterman and D. Patterson, 2009).
#pragma once

#include <algorithm>
#include <chrono>
#include <limits>
#include <string>
#include <vector>

#include "core/seconds_since.h"
#include "core/thread_pool.h"

namespace folio::experiments {

/// The roofline of one thread or of all threads. A multiply-add counts as two operations.
struct Roof {
  double operations_per_s;
  double bytes_per_s;

  [[nodiscard]] double at(double operations_per_byte) const;
};

/// Measures the roofline of the threads in `pool`: multiply-adds in registers, and reads from a buffer of `megabytes`
/// (a multiple of 32). Each is repeated for `seconds`, and the fastest run counts.
[[nodiscard]] Roof measure_roof(core::ThreadPool& pool, size_t megabytes, double seconds);

struct RooflinePoint {
  std::string name;
  double operations_per_byte;
  double operations_per_s;
};

/// Returns an SVG document with both rooflines and the points, on logarithmic axes.
[[nodiscard]] std::string roofline_picture(const std::string& title, const Roof& one_thread, const Roof& all_threads,
                                           const std::vector<RooflinePoint>& points);

/// Repeats `call` for about `seconds`, at least twice, and returns the time of the fastest call in seconds.
template <typename Call>
[[nodiscard]] double best_time(double seconds, const Call& call) {
  const auto begin = std::chrono::steady_clock::now();
  double best = std::numeric_limits<double>::infinity();
  for (int pass = 0; pass < 2 || core::seconds_since(begin) < seconds; ++pass) {
    const auto start = std::chrono::steady_clock::now();
    call();
    best = std::min(best, core::seconds_since(start));
  }
  return best;
}

}  // namespace folio::experiments
