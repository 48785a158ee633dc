// A build without Gloo: the same functions, which say so.
#include "core/error.h"
#include "infer/ranks/net/peers.h"

namespace folio::infer {
namespace {

[[noreturn]] void no_ranks() {
  core::fail(
      "this build has no ranks of several processes; install libgloo-dev and configure anew, or unset WORLD_SIZE");
}

}  // namespace

struct Peers::Own {};

Peers::Peers(const World& /*world*/) { no_ranks(); }
Peers::~Peers() = default;
const World& Peers::world() const { no_ranks(); }
void Peers::send(size_t /*to*/, Channel /*channel*/, std::span<const std::byte> /*bytes*/) { no_ranks(); }
void Peers::wait_until_taken(size_t /*to*/, Channel /*channel*/) { no_ranks(); }
std::span<const std::byte> Peers::receive(size_t /*from*/, Channel /*channel*/, std::chrono::seconds /*timeout*/) {
  no_ranks();
}
void Peers::receive_floats(size_t /*from*/, Channel /*channel*/, std::span<float> /*values*/) { no_ranks(); }
void Peers::take_leave() {}
std::optional<std::string> Peers::loss() const { return {}; }
void Peers::check() const {}
void Peers::give_up(const std::string& /*why*/) {}
void Peers::give_up_on(size_t /*rank*/, std::chrono::seconds /*timeout*/) { no_ranks(); }

}  // namespace folio::infer
