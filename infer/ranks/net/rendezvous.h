// Startup of the ranks: rank 0 listens, the other ranks connect and send their Gloo addresses, and each receives all
// addresses. Then the port is closed: steps use Gloo's own connections (peers.h).
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <deque>
#include <string>
#include <vector>

#include "infer/ranks/net/rank_config.h"

namespace folio::infer {

class Rendezvous {
 public:
  /// Listens (rank 0) or connects to rank 0 (other ranks). Throws core::Error if it fails or exceeds world.timeout.
  explicit Rendezvous(const RankConfig& world);

  /// Returns this host's numeric address on the network that connects it to rank 0.
  [[nodiscard]] const std::string& own_address() const { return own_address_; }

  /// Sends `own` to all ranks and returns the strings of all ranks, in order. Call it once. Throws core::Error if a
  /// rank doesn't connect in time, two processes have the same rank, or a rank has a different WORLD_SIZE.
  [[nodiscard]] std::vector<std::string> gather(const std::string& own);

 private:
  using Tcp = boost::asio::ip::tcp;

  [[nodiscard]] std::vector<std::string> gather_all(const std::string& own);
  [[nodiscard]] Tcp::resolver::results_type resolve(boost::system::error_code& error);
  [[nodiscard]] bool wait_for_connection();
  void listen();
  void reach();

  RankConfig world_;
  std::chrono::steady_clock::time_point deadline_;
  boost::asio::io_context context_;
  Tcp::acceptor acceptor_{context_};  ///< used only by rank 0
  std::deque<Tcp::iostream> others_;  ///< rank 0: connections to all other ranks; other ranks: one, to rank 0
  std::string own_address_;
};

}  // namespace folio::infer
