// How ranks find each other: rank 0 listens, the others come and say who they are, and each gets what all have said.
// Afterwards the port is free again. What is said is Gloo's addresses; the connections of a step are Gloo's (peers.h).
#pragma once

#include <string>
#include <vector>

#include "infer/ranks/net/world.h"

namespace folio::infer {

class Rendezvous {
 public:
  /// Rank 0 listens from now on, and another rank has reached it. Throws core::Error that says who is missing if
  /// that takes longer than the world's timeout.
  explicit Rendezvous(const World& world);
  ~Rendezvous();
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  /// The numeric address of this host on the network where rank 0 was reached.
  [[nodiscard]] const std::string& own_address() const { return own_address_; }

  /// Returns what each rank says, in order of ranks; once. Throws core::Error that names the ranks that have not come,
  /// one that came twice, or one that counts other ranks.
  [[nodiscard]] std::vector<std::string> gather(const std::string& own);

 private:
  [[nodiscard]] std::vector<std::string> gather_all(const std::string& own);
  void listen();
  void reach();

  World world_;
  std::chrono::steady_clock::time_point deadline_;
  int socket_ = -1;  ///< rank 0's listens; another's is its connection to rank 0
  std::vector<int> others_;
  std::string own_address_;
};

}  // namespace folio::infer
