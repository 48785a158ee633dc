#include "infer/ranks/net/rank_config.h"

#include <cstdlib>
#include <string_view>

#include "core/error.h"
#include "core/number.h"
#include "core/shared_memory.h"

namespace folio::infer {
namespace {

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

uint64_t number_in(const char* name, uint64_t low, uint64_t high) {
  const std::string_view text = variable(name);
  const auto value = core::number_of<uint64_t>(text);
  if (!value || *value < low || *value > high) {
    throw core::UsageError(fmt::format(
        "{} is \"{}\", but must be a number in [{}, {}], since WORLD_SIZE is {}; start the ranks with torchrun "
        "--no-python, or unset WORLD_SIZE for one process",
        name, core::printable(text), low, high, core::printable(variable("WORLD_SIZE"))));
  }
  return *value;
}

}  // namespace

std::optional<RankConfig> rank_config_from_environment() {
  if (variable("WORLD_SIZE").empty()) return {};
  RankConfig world;
  world.n_ranks = number_in("WORLD_SIZE", 1, kMostRanks);
  if (world.n_ranks == 1) return {};
  world.rank = number_in("RANK", 0, world.n_ranks - 1);
  world.n_local = world.n_ranks;
  if (!variable("LOCAL_WORLD_SIZE").empty()) world.n_local = number_in("LOCAL_WORLD_SIZE", 1, world.n_ranks);
  world.address = variable("MASTER_ADDR");
  if (world.address.empty()) {
    throw core::UsageError("MASTER_ADDR is missing, but WORLD_SIZE and RANK are set; set it to the host of rank 0");
  }
  // If torchrun's agent listens on MASTER_PORT, rank 0 uses MASTER_PORT + 2. MASTER_PORT + 1 would more often be in
  // use: a port that Linux chooses for the agent is usually odd, and Linux prefers even ports for outgoing connections.
  const uint16_t agent_offset = variable("TORCHELASTIC_USE_AGENT_STORE") == "True" ? 2 : 0;
  world.port = static_cast<uint16_t>(number_in("MASTER_PORT", 1, 65535 - agent_offset) + agent_offset);
  if (!variable("FOLIO_RANK_TIMEOUT").empty()) {
    world.timeout = std::chrono::seconds(number_in("FOLIO_RANK_TIMEOUT", 1, 86400));
  }
  world.shared_memory = core::ranks_share_memory();
  return world;
}

}  // namespace folio::infer
