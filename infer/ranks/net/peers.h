// The connections between ranks: messages of any length, and the news that a rank is gone. The only file that knows
// Gloo is peers.cpp. Messages of one channel from one rank to another come in their order. Ranks trust each other, and
// nothing that they send is encrypted.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "infer/ranks/net/world.h"

namespace folio::infer {

enum class Channel : uint8_t { Watch, Rounds, Groups, Orders, Residual, Logits };
inline constexpr size_t kChannels = 6;

inline constexpr std::chrono::seconds kForever{365L * 24 * 3600};

class Peers {
 public:
  /// Connects with all others. Throws core::Error, as Rendezvous does.
  explicit Peers(const World& world);
  /// The others take it for the loss of this rank, unless take_leave() was called.
  ~Peers();
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;

  [[nodiscard]] const World& world() const;

  /// Sends a copy. Waits until the rank has taken the message before on this channel.
  void send(size_t to, Channel channel, std::span<const std::byte> bytes);
  /// Waits until the rank has taken the last message.
  void wait_until_taken(size_t to, Channel channel);
  /// Waits for the next message of the rank, which stays until the one after it is waited for.
  std::span<const std::byte> receive(size_t from, Channel channel, std::chrono::seconds timeout);
  /// The same for one that has this many values. Throws core::Error for another.
  void receive_floats(size_t from, Channel channel, std::span<float> values);
  // All throw MachineLost if a rank is gone, has not answered in time, or give_up() was called.

  /// This rank ends as it should.
  void take_leave();
  /// Why nothing can go on: which rank is gone; nothing as long as all are there.
  [[nodiscard]] std::optional<std::string> loss() const;
  /// Throws MachineLost if there is a loss().
  void check() const;
  /// A step failed on this rank: from now on there is a loss(), and the others get one when this rank ends.
  void give_up(const std::string& why);
  /// The rank has not answered in this time: throws MachineLost that says so.
  [[noreturn]] void give_up_on(size_t rank, std::chrono::seconds timeout);

 private:
  struct Own;
  std::unique_ptr<Own> own_;
};

}  // namespace folio::infer
