#include "infer/ranks/net/transport.h"

#include <algorithm>
#include <string>

namespace folio::infer {
namespace {

class MessageTransport final : public Transport {
 public:
  MessageTransport(Peers& peers, Channel channel, std::vector<size_t> group, size_t index)
      : peers_(peers), channel_(channel), group_(std::move(group)), index_(index) {}

  void all_gather(std::span<const std::byte> bytes, size_t n_to_all, const Take& take,
                  std::chrono::seconds timeout) override {
    peers_.check();
    for_others([&](size_t i) { peers_.send(group_[i], channel_, i == 0 ? bytes : bytes.first(n_to_all)); });
    for_others([&](size_t i) {
      const auto got = peers_.receive(group_[i], channel_, timeout);
      if (!got.empty()) take(i, got);
    });
  }

 private:
  template <typename Body>
  void for_others(Body&& body) {
    for (size_t i = 0; i < group_.size(); ++i) {
      if (i != index_) body(i);
    }
  }

  Peers& peers_;
  Channel channel_;
  std::vector<size_t> group_;
  size_t index_;
};

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

bool all_can(Transport& transport, bool can, std::chrono::seconds timeout) {
  bool all = can;
  transport.all_gather(
      bytes_of(can ? "y" : "n"), 1,
      [&](size_t, std::span<const std::byte> answer) { all = all && static_cast<char>(answer[0]) == 'y'; }, timeout);
  return all;
}

}  // namespace

// The first member creates the shared memory and sends its name to the others. If any member can't open it, for example
// on another host or in another container, all members use messages.
std::unique_ptr<Transport> make_transport(Peers& peers, Channel channel, std::vector<size_t> group) {
  const RankConfig& world = peers.world();
  const auto index = static_cast<size_t>(std::ranges::find(group, world.rank) - group.begin());
  auto messages = std::make_unique<MessageTransport>(peers, channel, group, index);
  if (group.size() == 1 || !all_can(*messages, world.shared_memory, world.timeout)) return messages;
  const size_t size = shared_memory_bytes(group.size());
  std::string name;
  core::SharedMemory memory;
  if (index == 0) {
    name = core::SharedMemory::new_name();
    memory = core::SharedMemory::create(name, size);
  }
  messages->all_gather(
      bytes_of(name), name.size(),
      [&](size_t, std::span<const std::byte> text) {
        name.assign(reinterpret_cast<const char*>(text.data()), text.size());
        memory = core::SharedMemory::open(name, size);
      },
      world.timeout);
  const bool all = all_can(*messages, static_cast<bool>(memory), world.timeout);
  if (index == 0) core::SharedMemory::unlink(name);
  if (!all) return messages;
  return make_shared_memory_transport(peers, std::move(memory), std::move(group), index);
}

}  // namespace folio::infer
