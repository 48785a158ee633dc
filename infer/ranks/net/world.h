// The processes that run one model together, as torchrun describes them in the environment of each.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace folio::infer {

/// Who this process is among those that were started together.
struct World {
  size_t rank = 0;
  size_t n_ranks = 1;
  size_t n_local = 1;                ///< ranks on this host
  std::string address;               ///< rank 0's host
  uint16_t port = 0;                 ///< where rank 0 listens until all have come
  std::chrono::seconds timeout{60};  ///< for the others to come, and for one of them to answer within a step
  bool shared_memory = true;         ///< ranks of one host exchange through it, where they can
};

inline constexpr size_t kMostRanks = 64;

/// Of RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT; LOCAL_WORLD_SIZE says how many ranks are on this host (all, where
/// it is missing). Nothing where there is no WORLD_SIZE, or one process alone. torchrun's agent has a store of its own
/// on MASTER_PORT, and says so (TORCHELASTIC_USE_AGENT_STORE); then rank 0 listens two ports on. FOLIO_RANK_TIMEOUT
/// is the timeout in seconds; FOLIO_RANK_TRANSPORT=gloo leaves out shared memory. Throws core::UsageError that names
/// the variable that is missing or no such number.
[[nodiscard]] std::optional<World> world_of_environment();

}  // namespace folio::infer
