// Stubs of Peers for a build without Gloo. The constructor throws core::Error with the remedy.
#include "core/error.h"
#include "infer/ranks/net/peers.h"

namespace folio::infer {
namespace {

[[noreturn]] void no_ranks() {
  core::fail(
      "this build does not support multiple processes; install libgloo-dev and reconfigure, or unset WORLD_SIZE");
}

}  // namespace

struct Peers::Own {};

Peers::Peers(const RankConfig& /*world*/) { no_ranks(); }
Peers::~Peers() = default;
const RankConfig& Peers::world() const { no_ranks(); }
void Peers::send(size_t /*to*/, Channel /*channel*/, std::span<const std::byte> /*bytes*/) { no_ranks(); }
void Peers::wait_until_taken(size_t /*to*/, Channel /*channel*/) { no_ranks(); }
std::span<const std::byte> Peers::receive(size_t /*from*/, Channel /*channel*/, std::chrono::seconds /*timeout*/) {
  no_ranks();
}
void Peers::receive_floats(size_t /*from*/, Channel /*channel*/, std::span<float> /*values*/) { no_ranks(); }
void Peers::shutdown() {}
std::optional<std::string> Peers::loss() const { return {}; }
void Peers::check() const {}
void Peers::mark_failed(const std::string& /*why*/) {}
void Peers::lose_rank(size_t /*rank*/, std::chrono::seconds /*timeout*/) { no_ranks(); }

}  // namespace folio::infer
