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
#include <string_view>

#include "infer/ranks/net/rank_config.h"

namespace folio::infer {

enum class Channel : uint8_t { Watch, Rounds, Groups, Orders, Residual, Logits };
inline constexpr size_t kChannels = 6;

inline constexpr std::chrono::seconds kForever{365L * 24 * 3600};

class Peers {
 public:
  /// Connects to all other ranks. Throws core::Error if that fails (see Rendezvous), or in a build without Gloo.
  [[nodiscard]] static std::unique_ptr<Peers> connect(const RankConfig& world);
  /// Closes all connections. Unless shutdown() was called, the other ranks treat this rank as lost.
  virtual ~Peers() = default;

  [[nodiscard]] const RankConfig& world() const { return world_; }

  // The functions below throw MachineLost if a rank is lost or has not answered in time, or after mark_failed().
  /// Sends a copy of `bytes`. Waits until `to` has received the previous message on this channel.
  virtual void send(size_t to, Channel channel, std::span<const std::byte> bytes) = 0;
  /// Waits until `to` has received the last message that was sent to it on this channel.
  virtual void wait_until_taken(size_t to, Channel channel) = 0;
  /// Waits for the next message from a rank. The bytes are valid until the next receive() from that rank and channel.
  virtual std::span<const std::byte> receive(size_t from, Channel channel, std::chrono::seconds timeout) = 0;
  /// Receives the next message into `values`. Throws core::Error if its size differs.
  virtual void receive_floats(size_t from, Channel channel, std::span<float> values) = 0;
  virtual void check() const = 0;

  /// Tells the other ranks that this rank ends. If `error` is not empty, their loss() then contains it.
  virtual void shutdown(std::string_view error) = 0;
  /// Returns an error message if the ranks can't continue, for example after the loss of a rank; otherwise nullopt.
  [[nodiscard]] virtual std::optional<std::string> loss() const = 0;
  /// Records a failed step on this rank, so that loss() returns `why`. The other ranks notice when this process ends.
  virtual void mark_failed(const std::string& why) = 0;
  /// Records that `rank` has not answered within `timeout`, and always throws MachineLost.
  [[noreturn]] virtual void lose_rank(size_t rank, std::chrono::seconds timeout) = 0;

 protected:
  explicit Peers(const RankConfig& world) : world_(world) {}

  const RankConfig world_;
};

}  // namespace folio::infer
