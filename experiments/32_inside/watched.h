// Runs a model on the engine, returns its attention weights, and can disable heads.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/weights.h"
#include "experiments/32_inside/scores.h"
#include "infer/cpu/cpu.h"
#include "infer/forward/runner.h"

namespace folio::experiments {

class WatchedModel {
 public:
  /// Loads a model for sequences of up to `length` tokens. `model` must outlive the object.
  WatchedModel(const core::StoredModel& model, int64_t length)
      : runner_(model, cpu_, {.max_positions = length, .n_sequences = 1}) {}

  struct Watched {
    std::vector<std::vector<float>> weights{};  ///< attention weights [layer · n_heads + head][query · T + key]
    std::vector<double> losses{};               ///< (T - 1): −ln p of each token after the first
  };
  /// Runs T tokens as a new sequence in one step, with the outputs of the heads `off` set to 0.
  [[nodiscard]] Watched run(std::span<const int32_t> tokens, std::span<const Head> off = {});

 private:
  infer::Cpu cpu_;
  infer::Runner runner_;
};

}  // namespace folio::experiments
