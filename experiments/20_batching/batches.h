// Runs requests separately or together and counts the operations of the forward pass.
#pragma once

#include <cstdint>
#include <vector>

#include "experiments/common/readers_model.h"
#include "infer/engine/request.h"
#include "infer/profile/profiled_machine.h"

namespace folio::experiments {

struct Run {
  uint64_t steps;
  infer::Work work;
  std::vector<std::vector<int32_t>> texts;  ///< output tokens of each request
};

/// Requests of equal output length with different seeds and prompt lengths. Prompts are the first tokens of one output
/// of the model.
class Batches {
 public:
  Batches(const Report& report, const ReadersModel& reader);

  /// Runs requests [first, last) on `n_threads` threads. One arrives every `apart` steps; 0 means all at once.
  [[nodiscard]] Run run(size_t first, size_t last, size_t n_threads, int64_t apart = 0) const;

 private:
  [[nodiscard]] infer::Request request(size_t i) const;

  const core::StoredModel& model_;
  size_t longest_prompt_;
  int64_t n_tokens_;
  uint64_t seed_;
  std::vector<int32_t> prompt_;
};

}  // namespace folio::experiments
