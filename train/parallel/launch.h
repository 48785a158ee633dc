// Reads the environment variables that torchrun or the user sets for each rank: RANK, WORLD_SIZE, MASTER_ADDR and
// MASTER_PORT. All ranks connect to c10d's key-value store at MASTER_ADDR:MASTER_PORT. torchrun's agent on the first
// host runs the store; without torchrun, rank 0 does.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace c10d {
class Store;
}

namespace folio::train::parallel {

struct Launch {
  int64_t rank = 0;
  int64_t n_ranks = 1;
  int64_t n_on_host = 1;  ///< ranks on this host, which share its cores
  int64_t on_host = 0;    ///< index of this rank among the ranks on its host; also the index of its GPU
  std::string address;
  uint16_t port = 0;
  bool agent_has_store = false;
  int64_t attempt = 0;  ///< number of times that torchrun has restarted all ranks

  [[nodiscard]] bool has_store() const { return rank == 0 && !agent_has_store; }
};

/// Returns this process's Launch, or nullopt if neither RANK nor WORLD_SIZE is set. Throws core::UsageError that names
/// a missing or invalid variable.
[[nodiscard]] std::optional<Launch> launch_from_environment();

/// Connects to the store. If `may_serve` and has_store(), first starts the store in this process. Keys written before a
/// restart by torchrun (Launch::attempt) are not visible. Throws core::Error on failure.
[[nodiscard]] c10::intrusive_ptr<c10d::Store> connect_store(const Launch& launch, bool may_serve,
                                                            std::chrono::milliseconds timeout);

/// Returns the first line of an error's message; LibTorch's messages continue with a stack trace.
[[nodiscard]] std::string first_line(const std::exception& error);

/// Writes a string to the store. get() returns the value of a key, and waits until the key has been written.
void put(c10d::Store& store, const std::string& key, const std::string& text);
[[nodiscard]] std::string get(c10d::Store& store, const std::string& key);
/// Waits until a key has been written to the store. Returns false on a timeout or error.
bool comes(c10d::Store& store, const std::string& key, std::chrono::milliseconds timeout);
/// Waits for key(rank) of each rank in `ranks`. Returns the ranks whose key is still missing after the timeout.
std::vector<int64_t> missing_keys(c10d::Store& store, const std::vector<int64_t>& ranks,
                                  const std::function<std::string(int64_t rank)>& key,
                                  std::chrono::milliseconds timeout);

}  // namespace folio::train::parallel
