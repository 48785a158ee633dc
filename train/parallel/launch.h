// How a process learns which rank it is, and where the ranks meet first: from the environment, as torchrun sets it, or
// by hand. The meeting place is a store of c10d, which maps keys to values.
//
//   torchrun    one agent a host starts the ranks; the first host's agent has the store, at MASTER_ADDR:MASTER_PORT
//   by hand     RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT; rank 0 has the store
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

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
  int64_t attempt = 0;  ///< how often torchrun has started all ranks anew after one of them ended
};

/// Empty where the environment names no rank. Throws core::UsageError that names the variable which is missing or
/// wrong.
[[nodiscard]] std::optional<Launch> launch_from_environment();

/// A connection to the store. Keys of an earlier attempt are not seen. Throws core::Error if nobody answers in time.
[[nodiscard]] c10::intrusive_ptr<c10d::Store> connect_store(const Launch& launch, bool may_serve,
                                                            std::chrono::milliseconds timeout);

/// Texts in the store.
void put(c10d::Store& store, const std::string& key, const std::string& text);
[[nodiscard]] std::string get(c10d::Store& store, const std::string& key);

/// Throws core::UsageError unless all ranks give the same text of several lines; it shows the first that differs:
/// "rank 1 has another build than rank 0: …". All ranks call it with the same `what`, "build" for example.
void require_same(c10d::Store& store, const Launch& launch, const std::string& what, const std::string& text,
                  std::chrono::milliseconds timeout);

/// A digest of this program's file.
[[nodiscard]] std::string digest_of_program();

}  // namespace folio::train::parallel
