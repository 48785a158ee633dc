// What a server counts, in Prometheus' text format. Source: "Exposition formats", version 0.0.4.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "infer/engine/engine.h"

namespace folio::infer::server {

/// In seconds: how many were below each bound, and the last ones themselves.
class Latencies {
 public:
  void add(double seconds);
  /// Of the last 1,024; none: there was no time yet.
  struct Quantiles {
    double median;
    double p99;
  };
  [[nodiscard]] std::optional<Quantiles> quantiles() const;
  /// The lines of a histogram.
  [[nodiscard]] std::string text(const std::string& name, const std::string& help) const;

 private:
  static constexpr std::array kBounds = {0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1,
                                         0.2,   0.5,   1.0,   2.0,  5.0,  10.0, 60.0};
  static constexpr size_t kLast = 1024;

  std::array<uint64_t, kBounds.size() + 1> counts_{};
  double sum_ = 0.0;
  std::vector<double> last_;  ///< a ring
  size_t next_ = 0;
};

struct Metrics {
  std::map<std::pair<std::string, int>, uint64_t> requests;  ///< by path and status
  /// Completions that ended, by the model that they asked for.
  struct OfModel {
    uint64_t requests = 0;
    uint64_t tokens = 0;  ///< that were generated
  };
  std::map<std::string, OfModel> models;
  uint64_t prompt_tokens = 0;  ///< of completions that ended
  uint64_t drafts = 0;         ///< that were tried
  uint64_t drafts_right = 0;   ///< of them
  Latencies first_token;       ///< from a request's arrival to its first token
  Latencies between_tokens;    ///< of one choice

  [[nodiscard]] std::string text(const EngineStatistics& engine) const;
};

}  // namespace folio::infer::server
