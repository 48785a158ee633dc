// Wraps a machine to profile the forward pass: seconds, bytes and multiply-adds by kind of operation. Results are
// unchanged, but recorded steps are not replayed. Works only with machines that complete each operation before issue()
// returns, such as Cpu.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "infer/forward/machine.h"

namespace folio::infer {

/// Totals over operations: their number and time, the bytes that they access, and their multiply-adds.
struct Work {
  uint64_t operations = 0;
  double seconds = 0.0;
  /// Bytes of the weights that are read, once per operation. Experts that no row uses are not counted.
  uint64_t weight_bytes = 0;
  uint64_t embedding_bytes = 0;          ///< rows of the embedding table, one per row of the step
  uint64_t cache_bytes_read = 0;         ///< keys and values of all positions that each row attends to
  uint64_t cache_bytes_written = 0;      ///< keys and values of the step's rows
  uint64_t matrix_multiply_adds = 0;     ///< in products of activation rows and weight matrices
  uint64_t attention_multiply_adds = 0;  ///< in products of queries and keys, and of probabilities and values

  [[nodiscard]] uint64_t bytes() const {
    return weight_bytes + embedding_bytes + cache_bytes_read + cache_bytes_written;
  }
  [[nodiscard]] uint64_t multiply_adds() const { return matrix_multiply_adds + attention_multiply_adds; }
  Work& operator+=(const Work& other);
};

/// Kinds of operations, in order of the forward pass. "begin" is the upload of rows, block tables and block copies.
inline constexpr std::array<std::string_view, 17> kWorkKinds{"begin",
                                                             "embedding",
                                                             "norms",
                                                             "q, k, v",
                                                             "rotate and store",
                                                             "latent heads",
                                                             "attention",
                                                             "attention output",
                                                             "router",
                                                             "expert gate, up",
                                                             "expert down",
                                                             "gate, up",
                                                             "activation",
                                                             "shared gate",
                                                             "down",
                                                             "logits",
                                                             "other"};

struct Profile {
  uint64_t steps = 0;
  uint64_t rows = 0;          ///< number of rows in all steps
  double step_seconds = 0.0;  ///< total time from the beginning of each step to its end
  std::array<Work, kWorkKinds.size()> kinds{};

  [[nodiscard]] Work total() const;
  Profile& operator+=(const Profile& other);
};

/// An operation of a step, for a timeline.
struct TracedOperation {
  size_t kind;
  int64_t layer;  ///< layer whose keys and values the step stored last; -1: none yet
  std::chrono::steady_clock::time_point begin;
  std::chrono::steady_clock::time_point end;
};

/// A machine that profiles all stages that it loads.
class ProfiledMachine final : public Machine {
 public:
  /// Wraps `inner`, which must outlive this object.
  explicit ProfiledMachine(Machine& inner) : inner_(inner) {}

  [[nodiscard]] std::string describe() const override { return inner_.describe(); }
  [[nodiscard]] std::unique_ptr<Stage> load(const core::StoredModel& model, const Shard& shard,
                                            CacheType cache_type) override;

  Profile profile{};                              ///< totals of all profiled steps; assign {} to reset them
  bool enabled = true;                            ///< false: operations are forwarded without profiling
  std::vector<TracedOperation>* trace = nullptr;  ///< receives every operation; null: no trace

 private:
  Machine& inner_;
};

}  // namespace folio::infer
