// The environment of a rank, as torchrun or a user sets it: RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT. There the
// ranks meet in a store of c10d, which maps keys to values: the first host's agent of torchrun has it, else rank 0.
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
  int64_t on_host = 0;    ///< this one's number among them, and its GPU's
  std::string address;
  uint16_t port = 0;
  bool agent_has_store = false;
  int64_t attempt = 0;  ///< restarts of all ranks by torchrun after one of them ended

  [[nodiscard]] bool has_store() const { return rank == 0 && !agent_has_store; }
};

/// Empty where the environment names no rank. Throws core::UsageError that names a missing or wrong variable.
[[nodiscard]] std::optional<Launch> launch_from_environment();

/// A connection to the store, without the keys of earlier attempts. Throws core::Error if there is none in time.
[[nodiscard]] c10::intrusive_ptr<c10d::Store> connect_store(const Launch& launch, bool may_serve,
                                                            std::chrono::milliseconds timeout);

/// LibTorch's errors have a trace of calls after it.
[[nodiscard]] std::string first_line(const std::exception& error);

/// Texts in the store.
void put(c10d::Store& store, const std::string& key, const std::string& text);
[[nodiscard]] std::string get(c10d::Store& store, const std::string& key);
/// Whether the key comes in time.
bool comes(c10d::Store& store, const std::string& key, std::chrono::milliseconds timeout);
/// Ranks whose key did not come within the timeout for all.
std::vector<int64_t> missing_keys(c10d::Store& store, const std::vector<int64_t>& ranks,
                                  const std::function<std::string(int64_t rank)>& key,
                                  std::chrono::milliseconds timeout);

}  // namespace folio::train::parallel
