#include "infer/ranks/rounds.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "infer/ranks/shared_memory.h"

namespace folio::infer {
namespace {

class MessageRounds final : public Rounds {
 public:
  MessageRounds(Peers& peers, Channel channel, std::vector<size_t> group, size_t index)
      : peers_(peers), channel_(channel), group_(std::move(group)), index_(index) {
    for_others([this](size_t i) { peers_.expect(group_[i], channel_); });
  }

  void meet(std::span<const std::byte> to_all, std::span<const std::byte> to_first, const Take& take,
            std::chrono::seconds timeout) override {
    peers_.check();
    for_others([&](size_t i) {
      if (i == 0 && !to_first.empty()) {
        whole_.assign(to_all.begin(), to_all.end());
        whole_.insert(whole_.end(), to_first.begin(), to_first.end());
        peers_.send(group_[i], channel_, whole_);
      } else {
        peers_.send(group_[i], channel_, to_all);
      }
    });
    for_others([&](size_t i) {
      const auto bytes = peers_.receive(group_[i], channel_, timeout);
      if (!bytes.empty()) take(i, bytes);
      peers_.expect(group_[i], channel_);
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
  std::vector<std::byte> whole_;
};

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

// Whether all members could, each as it says.
bool all_can(Rounds& rounds, bool can, std::chrono::seconds timeout) {
  bool all = can;
  rounds.meet(
      bytes_of(can ? "y" : "n"), {},
      [&](size_t, std::span<const std::byte> answer) { all = all && static_cast<char>(answer[0]) == 'y'; }, timeout);
  return all;
}

}  // namespace

// The first member makes the memory, and tells the others its name. Who can't open it is on another host, or in another
// container.
std::unique_ptr<Rounds> make_rounds(Peers& peers, Channel channel, std::vector<size_t> group) {
  const World& world = peers.world();
  const auto index = static_cast<size_t>(std::ranges::find(group, world.rank) - group.begin());
  auto messages = std::make_unique<MessageRounds>(peers, channel, group, index);
  if (group.size() == 1 || !all_can(*messages, world.shared_memory, world.timeout)) return messages;
  const size_t size = shared_rounds_bytes(group.size());
  std::string name;
  core::SharedMemory memory;
  if (index == 0) {
    name = core::SharedMemory::new_name();
    memory = core::SharedMemory::create(name, size);
  }
  messages->meet(
      bytes_of(name), {},
      [&](size_t, std::span<const std::byte> text) {
        name.assign(reinterpret_cast<const char*>(text.data()), text.size());
        memory = core::SharedMemory::open(name, size);
      },
      world.timeout);
  const bool all = all_can(*messages, static_cast<bool>(memory), world.timeout);
  if (index == 0) core::SharedMemory::unlink(name);
  if (!all) return messages;
  return make_shared_rounds(peers, std::move(memory), std::move(group), index);
}

}  // namespace folio::infer
