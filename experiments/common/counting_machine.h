// A machine that passes everything on to another, and counts what the forward pass asks of it: bytes and multiply-adds.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "infer/forward/machine.h"

namespace folio::experiments {

/// What was asked for, in all steps since the counters were set to 0.
struct Work {
  uint64_t steps = 0;
  uint64_t rows = 0;                     ///< tokens that went through
  /// Of every matrix and vector, once for each operation that names it; of experts, of those that rows take.
  uint64_t weight_bytes = 0;
  uint64_t embedding_bytes = 0;          ///< rows of the embedding: one for each row
  uint64_t cache_bytes_read = 0;         ///< keys and values of all positions that a row sees, for each row
  uint64_t cache_bytes_written = 0;      ///< keys and values of the rows
  uint64_t matrix_multiply_adds = 0;     ///< of rows with weights
  uint64_t attention_multiply_adds = 0;  ///< of queries with keys, and of probabilities with values
};

/// Counts for all stages that it loads.
class CountingMachine final : public infer::Machine {
 public:
  /// `inner` has to outlive it.
  explicit CountingMachine(infer::Machine& inner) : inner_(inner) {}

  [[nodiscard]] std::string describe() const override { return inner_.describe(); }
  [[nodiscard]] std::unique_ptr<infer::Stage> load(const core::StoredModel& model, const infer::Shard& shard,
                                                   infer::CacheType cache_type) override;

  Work work{};

 private:
  infer::Machine& inner_;
};

}  // namespace folio::experiments
