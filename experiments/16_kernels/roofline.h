// What a machine can do at most, measured, and a picture of it: no more operations a second than its arithmetic does,
// and no more than its memory feeds (S. Williams, A. Waterman and D. Patterson, 2009).
#pragma once

#include <algorithm>
#include <chrono>
#include <limits>
#include <string>
#include <vector>

#include "core/seconds_since.h"
#include "core/thread_pool.h"

namespace folio::experiments {

/// Of one thread, or of all together. An operation is a multiplication or an addition.
struct Roof {
  double operations_per_s;
  double bytes_per_s;

  [[nodiscard]] double at(double operations_per_byte) const;
};

/// The best of what fits into `seconds`, twice: multiply-adds on registers alone, and reads of pieces of `megabytes`, a
/// multiple of 32, of memory.
[[nodiscard]] Roof measure_roof(core::ThreadPool& pool, size_t megabytes, double seconds);

struct RooflinePoint {
  std::string name;
  double operations_per_byte;
  double operations_per_s;
};

/// Both roofs and the points, on logarithmic axes, as SVG.
[[nodiscard]] std::string roofline_picture(const std::string& title, const Roof& one_thread, const Roof& all_threads,
                                           const std::vector<RooflinePoint>& points);

/// Seconds of the fastest call of those that fit into `seconds`, at least two.
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
