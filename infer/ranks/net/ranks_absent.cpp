// Peers::connect() for builds without Gloo or Boost. It always throws.
#include "core/error.h"
#include "infer/ranks/net/peers.h"

namespace folio::infer {

std::unique_ptr<Peers> Peers::connect(const RankConfig& /*world*/) {
  core::fail(
      "this build does not support multiple processes; install libgloo-dev and libboost-dev and reconfigure, or unset "
      "WORLD_SIZE");
}

}  // namespace folio::infer
