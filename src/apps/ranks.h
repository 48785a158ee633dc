// A model in several processes, for the programs that serve: the environment says which of them this one is.
#pragma once

#include <cstdint>
#include <optional>

#include "apps/program.h"
#include "infer/ranks/net/ranked_cpu.h"

namespace folio::apps {

/// --pipeline-parallel, and what the help says of ranks.
void add_rank_flags(Flags& app, size_t& n_stages);

class Ranks {
 public:
  /// Where the environment has several processes, connects them, and gives the flags their machine. It has to outlive
  /// the model. Throws core::UsageError for flags that ranks don't take.
  Ranks(const Flags& app, ModelFlags& flags, size_t n_stages);

  /// On another rank than 0: loads the model, does what rank 0 does until it ends, and returns true. The rest of the
  /// program is rank 0's.
  [[nodiscard]] bool follow(infer::LoadedModel& model);
  /// Null for one process.
  [[nodiscard]] const infer::RankedCpu* machine() const { return machine_ ? &*machine_ : nullptr; }
  /// Of several processes: bytes that all ranks together give each other in a step that decodes `batch` sequences.
  [[nodiscard]] uint64_t exchanged_bytes(const core::StoredModel& model, int64_t batch) const;
  /// Whether a rank is lost; of one process never.
  [[nodiscard]] bool lost() const { return machine_ && machine_->loss(); }
  /// Throws infer::MachineLost if one is.
  void check() const;

 private:
  std::optional<infer::RankedCpu> machine_;
};

}  // namespace folio::apps
