// Connections between ranks, made with Gloo: messages of any length, and detection of lost ranks. Messages from one
// rank to another on one channel arrive in order. Ranks trust each other, and their traffic is not encrypted.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "infer/ranks/net/rank_config.h"

namespace folio::infer {

enum class Channel : uint8_t { Watch, Rounds, Groups, Orders, Residual, Logits };
inline constexpr size_t kChannels = 6;

inline constexpr std::chrono::seconds kForever{365L * 24 * 3600};

class Peers {
 public:
  /// Connects to all other ranks. Throws core::Error as Rendezvous does.
  explicit Peers(const RankConfig& world);
  /// Closes all connections. Unless shutdown() was called, the other ranks treat this rank as lost.
  ~Peers();
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;

  [[nodiscard]] const RankConfig& world() const;

  /// Sends a copy of `bytes`. Waits until `to` has received the previous message on this channel.
  void send(size_t to, Channel channel, std::span<const std::byte> bytes);
  /// Waits until `to` has received the last message that was sent to it on this channel.
  void wait_until_taken(size_t to, Channel channel);
  /// Waits for the next message from a rank. It stays valid until the next receive() from that rank on this channel.
  std::span<const std::byte> receive(size_t from, Channel channel, std::chrono::seconds timeout);
  /// Receives the next message into `values`. Throws core::Error if its size differs.
  void receive_floats(size_t from, Channel channel, std::span<float> values);
  // The functions above throw MachineLost if a rank is lost or has not answered in time, or after mark_failed().

  /// Tells the other ranks that this one shuts down in an orderly way.
  void shutdown();
  /// Returns an error message if the ranks can't continue, for example after the loss of a rank; otherwise nullopt.
  [[nodiscard]] std::optional<std::string> loss() const;
  /// Throws MachineLost if loss() returns an error.
  void check() const;
  /// Records a failed step on this rank, so that loss() returns `why`. The other ranks notice when this process ends.
  void mark_failed(const std::string& why);
  /// Records that `rank` has not answered within `timeout`, and always throws MachineLost.
  [[noreturn]] void lose_rank(size_t rank, std::chrono::seconds timeout);

 private:
  struct Own;
  std::unique_ptr<Own> own_;
};

}  // namespace folio::infer
