#include "train/parallel/launch.h"

#include <netdb.h>

#include <algorithm>
#include <cstdlib>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "core/error.h"
#include "core/file_status.h"
#include "core/number.h"

namespace folio::train::parallel {
namespace {

std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr || *value == '\0' ? std::nullopt : std::optional<std::string>(value);
}

int64_t number(const char* name, int64_t low, int64_t high) {
  const std::optional<std::string> text = variable(name);
  if (!text) {
    throw core::UsageError(fmt::format(
        "{} is not set; start ranks with torchrun --no-python, or set RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT",
        name));
  }
  const auto value = core::number_of<int64_t>(*text);
  if (!value || *value < low || *value > high) {
    throw core::UsageError(
        fmt::format("{}={}: expected a number from {} to {}", name, core::printable(*text), low, high));
  }
  return *value;
}

int64_t number_or(const char* name, int64_t otherwise, int64_t low = 0, int64_t high = 1 << 20) {
  return variable(name) ? number(name, low, high) : otherwise;
}

// Waits at most a minute for a name that is not known yet, as rank 0's host may start later.
void require_known_host(const Launch& launch, std::chrono::milliseconds timeout) {
  using std::chrono::steady_clock;
  const auto until = steady_clock::now() + std::min<std::chrono::milliseconds>(timeout, std::chrono::minutes(1));
  addrinfo* found = nullptr;
  while (const int error = ::getaddrinfo(launch.address.c_str(), nullptr, nullptr, &found)) {
    core::require(steady_clock::now() < until,
                  "rank {}: MASTER_ADDR={}: cannot resolve this host: {}; set it to the host of rank 0", launch.rank,
                  core::printable(launch.address), ::gai_strerror(error));
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
  }
  ::freeaddrinfo(found);
}

}  // namespace

std::optional<Launch> launch_from_environment() {
  if (!variable("RANK") && !variable("WORLD_SIZE")) return {};
  Launch launch;
  launch.n_ranks = number("WORLD_SIZE", 1, 1 << 16);
  launch.rank = number("RANK", 0, launch.n_ranks - 1);
  launch.n_on_host = number_or("LOCAL_WORLD_SIZE", launch.n_ranks, 1, launch.n_ranks);
  launch.on_host = number_or("LOCAL_RANK", launch.rank);
  launch.attempt = number_or("TORCHELASTIC_RESTART_COUNT", 0);
  if (launch.n_ranks == 1) return launch;
  launch.port = static_cast<uint16_t>(number("MASTER_PORT", 1, 65535));
  const std::optional<std::string> address = variable("MASTER_ADDR");
  if (!address) throw core::UsageError("MASTER_ADDR is not set; set it to the host of rank 0");
  launch.address = *address;
  launch.agent_has_store = variable("TORCHELASTIC_USE_AGENT_STORE") == "True";
  return launch;
}

c10::intrusive_ptr<c10d::Store> connect_store(const Launch& launch, bool may_serve, std::chrono::milliseconds timeout) {
  require_known_host(launch, timeout);
  c10d::TCPStoreOptions options;
  options.port = launch.port;
  options.isServer = may_serve && launch.has_store();
  options.waitWorkers = false;
  options.timeout = timeout;
  try {
    return c10::make_intrusive<c10d::PrefixStore>(fmt::format("folio {}", launch.attempt),
                                                  c10::make_intrusive<c10d::TCPStore>(launch.address, options));
  } catch (const std::exception& error) {
    core::fail("rank {}: the store at {}:{} is unavailable ({}); {}", launch.rank, launch.address, launch.port,
               core::printable(first_line(error), 160),
               options.isServer ? "set another MASTER_PORT, and MASTER_ADDR to rank 0's host"
                                : "check that rank 0 is running on MASTER_ADDR");
  }
}

std::string first_line(const std::exception& error) {
  const std::string what = core::describe(error);
  return what.substr(0, what.find('\n'));
}

void put(c10d::Store& store, const std::string& key, const std::string& text) {
  store.set(key, std::vector<uint8_t>(text.begin(), text.end()));
}

std::string get(c10d::Store& store, const std::string& key) {
  const std::vector<uint8_t> bytes = store.get(key);
  return {bytes.begin(), bytes.end()};
}

bool comes(c10d::Store& store, const std::string& key, std::chrono::milliseconds timeout) {
  try {
    store.wait({key}, timeout);
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

std::vector<int64_t> missing_keys(c10d::Store& store, const std::vector<int64_t>& ranks,
                                  const std::function<std::string(int64_t)>& key, std::chrono::milliseconds timeout) {
  using std::chrono::milliseconds;
  const auto until = std::chrono::steady_clock::now() + timeout;
  std::vector<int64_t> missing;
  for (const int64_t rank : ranks) {
    const auto left = std::chrono::duration_cast<milliseconds>(until - std::chrono::steady_clock::now());
    if (!comes(store, key(rank), std::max(left, milliseconds(1)))) missing.push_back(rank);
  }
  return missing;
}

}  // namespace folio::train::parallel
