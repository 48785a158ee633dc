// Settings of the processes (ranks) that run one model together, from the environment variables that torchrun sets.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace folio::infer {

/// This process's rank, and the settings for connecting to the other ranks.
struct RankConfig {
  size_t rank = 0;
  size_t n_ranks = 1;
  size_t n_local = 1;                ///< number of ranks on this host, including this one
  std::string address;               ///< host name or IP address of rank 0
  uint16_t port = 0;                 ///< port on which rank 0 listens until all ranks have connected
  std::chrono::seconds timeout{60};  ///< time limit for connecting all ranks, and for each message within a step
  bool shared_memory = true;         ///< true: ranks of one host exchange data in shared memory, if possible
};

inline constexpr size_t kMostRanks = 64;

/// Reads RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT; returns nullopt if WORLD_SIZE is unset or 1. LOCAL_WORLD_SIZE
/// is the number of ranks on this host (default: all). If torchrun's agent uses MASTER_PORT for its own store
/// (TORCHELASTIC_USE_AGENT_STORE=True), rank 0 listens on MASTER_PORT + 2. FOLIO_RANK_TIMEOUT is the timeout in
/// seconds; FOLIO_RANK_TRANSPORT=gloo disables shared memory. Throws core::UsageError for invalid variables.
[[nodiscard]] std::optional<RankConfig> rank_config_from_environment();

}  // namespace folio::infer
