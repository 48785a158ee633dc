// Inference with one model in several processes (ranks). Environment variables give the rank and the number of ranks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "apps/program.h"
#include "infer/ranks/net/ranked_cpu.h"

namespace folio::apps {

/// Adds --pipeline-parallel, and a paragraph about ranks at the end of --help.
void add_rank_flags(Flags& app, ModelFlags& flags);

class Ranks {
 public:
  /// If the environment specifies several processes, connects them and sets `flags` to run the model on all of them.
  /// This object must outlive the model. Throws core::UsageError for flags that ranks do not support.
  Ranks(const Flags& app, ModelFlags& flags);

  /// Opens the model like open_model(). If that fails on one rank, the other ranks fail with the same error.
  [[nodiscard]] infer::LoadedModel open(const ModelFlags& flags);
  /// Returns false on rank 0, which runs the program. On other ranks loads the model, executes rank 0's steps until
  /// it shuts down, and returns true.
  [[nodiscard]] bool follow(infer::LoadedModel& model);
  /// Returns the machine that distributes the computation over all ranks, or null if there is only one process.
  [[nodiscard]] const infer::RankedCpu* machine() const { return machine_ ? &*machine_ : nullptr; }
  /// Returns the bytes that all ranks together send in a decode step of `batch` sequences. Requires machine() != null.
  [[nodiscard]] uint64_t exchanged_bytes(const core::StoredModel& model, int64_t batch) const;
  /// Returns why the connection to a rank is lost; nullopt if it is not, or for a single process.
  [[nodiscard]] std::optional<std::string> loss() const { return machine_ ? machine_->loss() : std::nullopt; }

 private:
  std::optional<infer::RankedCpu> machine_;
};

}  // namespace folio::apps
