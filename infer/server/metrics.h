// Server metrics in Prometheus' text format. Source: "Exposition formats", version 0.0.4.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "infer/engine/engine.h"
#include "infer/server/schema.h"

namespace folio::infer::server {

/// Returns a metric in Prometheus' text format. `type` is "counter" or "gauge".
[[nodiscard]] std::string metric(const char* name, const char* type, const char* help, double value);

/// Latencies in seconds: a histogram, and the last 1,024 values.
class Latencies {
 public:
  void add(double seconds);
  /// Returns {"median", "p99"} of the last 1,024 values, in milliseconds; null if there are no values.
  [[nodiscard]] Ordered quantiles_ms() const;
  /// Returns the histogram in Prometheus' text format.
  [[nodiscard]] std::string text(const std::string& name, const std::string& help) const;

 private:
  static constexpr std::array kBounds = {0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1,
                                         0.2,   0.5,   1.0,   2.0,  5.0,  10.0, 60.0};
  static constexpr size_t kLast = 1024;

  std::array<uint64_t, kBounds.size() + 1> counts_{};
  double sum_ = 0.0;
  std::vector<double> last_;  ///< ring buffer of the last kLast values
  size_t next_ = 0;
};

struct Metrics {
  std::map<std::pair<std::string, int>, uint64_t> requests;  ///< number of responses, by path and status
  /// Counts for one model or adapter, over finished completions.
  struct OfModel {
    uint64_t requests = 0;
    uint64_t tokens = 0;  ///< generated tokens
  };
  std::map<std::string, OfModel> models;
  uint64_t prompt_tokens = 0;  ///< prompt tokens of finished completions
  uint64_t cached_tokens = 0;  ///< part of prompt_tokens: found in the prefix cache
  uint64_t drafts = 0;         ///< draft tokens that were verified
  uint64_t drafts_right = 0;   ///< draft tokens that were accepted
  Latencies first_token;       ///< time from a request's arrival to its first token
  Latencies between_tokens;    ///< time between consecutive tokens of a choice

  [[nodiscard]] std::string text(const EngineStatistics& engine) const;
};

}  // namespace folio::infer::server
