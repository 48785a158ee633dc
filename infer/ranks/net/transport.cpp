#include "infer/ranks/net/transport.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <ctime>
#include <string>
#include <utility>

#include "core/shared_memory.h"
#include "core/thread_pool.h"

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

constexpr size_t kPlace = size_t{256} << 10U;  ///< bytes per buffer; each member has two
constexpr int kSpinsOfRound = 2000;            ///< spins before a wait sleeps: about 20 µs, enough if all ranks run

struct alignas(64) Member {
  std::atomic<uint32_t> round{0};     ///< number of the last round whose bytes were written
  std::atomic<uint32_t> sleepers{0};  ///< number of other members that sleep until `round` changes
  struct alignas(64) Place {
    uint64_t to_all;  ///< number of leading bytes for all members; the rest are for member 0 only
    uint64_t total;
    std::byte bytes[kPlace];  // NOLINT(modernize-avoid-c-arrays)
  } places[2];                // NOLINT(modernize-avoid-c-arrays)
};
static_assert(std::atomic<uint32_t>::is_always_lock_free, "processes share them");

void sleep_on(std::atomic<uint32_t>& word, uint32_t seen) {
  const timespec interval{.tv_sec = 0, .tv_nsec = 100'000'000};  // 0.1 s, then the caller checks for lost ranks
  ::syscall(SYS_futex, &word, FUTEX_WAIT, seen, &interval, nullptr, 0);
}

void wake_all(std::atomic<uint32_t>& word) { ::syscall(SYS_futex, &word, FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0); }

// All-gather in shared memory, which was zero before any member used it. Each member alternates between two buffers: it
// writes its bytes, increments its round counter and waits for the other members. A member in round r + 1 has read all
// of round r, so a buffer is overwritten only after all members have read it. Data larger than a buffer takes several
// rounds.
class SharedMemoryTransport final : public Transport {
 public:
  SharedMemoryTransport(Peers& peers, core::SharedMemory memory, std::vector<size_t> group, size_t index)
      : peers_(peers),
        memory_(std::move(memory)),
        members_(reinterpret_cast<Member*>(memory_.data())),
        group_(std::move(group)),
        index_(index),
        got_(group_.size()) {}

  void all_gather(std::span<const std::byte> bytes, size_t n_to_all, const Take& take,
                  std::chrono::seconds timeout) override {
    peers_.check();
    size_t n_rounds = std::max<size_t>(1, (bytes.size() + kPlace - 1) / kPlace);
    for (size_t r = 0; r < n_rounds; ++r) {
      Member& me = members_[index_];
      Member::Place& place = me.places[round_ % 2];
      place.to_all = n_to_all;
      place.total = bytes.size();
      const auto part = bytes.subspan(std::min(bytes.size(), r * kPlace));
      std::copy_n(part.begin(), std::min(kPlace, part.size()), place.bytes);
      me.round.store(++round_);
      if (me.sleepers.load() > 0) wake_all(me.round);
      for (size_t i = 0; i < group_.size(); ++i) {
        if (i == index_) continue;
        wait_for(i, timeout);
        const Member::Place& theirs = members_[i].places[(round_ - 1) % 2];
        n_rounds = std::max<size_t>(n_rounds, (theirs.total + kPlace - 1) / kPlace);
        const size_t wanted = index_ == 0 ? theirs.total : theirs.to_all;
        if (r * kPlace >= wanted) continue;
        const std::span<const std::byte> got(theirs.bytes, std::min(kPlace, wanted - r * kPlace));
        if (wanted <= kPlace) {
          take(i, got);
          continue;
        }
        if (r == 0) got_[i].clear();
        got_[i].insert(got_[i].end(), got.begin(), got.end());
        if (got_[i].size() == wanted) take(i, got_[i]);
      }
    }
  }

 private:
  void wait_for(size_t member, std::chrono::seconds timeout) {
    std::atomic<uint32_t>& theirs = members_[member].round;
    const auto behind = [&](uint32_t seen) { return static_cast<int32_t>(seen - round_) < 0; };
    for (int spin = 0; spin < kSpinsOfRound; ++spin) {
      if (!behind(theirs.load(std::memory_order_acquire))) return;
      core::pause_cpu();
    }
    const auto start = std::chrono::steady_clock::now();
    for (uint32_t seen = theirs.load(); behind(seen); seen = theirs.load()) {
      peers_.check();
      if (std::chrono::steady_clock::now() - start >= timeout) peers_.lose_rank(group_[member], timeout);
      members_[member].sleepers.fetch_add(1);
      sleep_on(theirs, seen);
      members_[member].sleepers.fetch_sub(1);
    }
  }

  Peers& peers_;
  core::SharedMemory memory_;
  Member* members_;
  std::vector<size_t> group_;
  size_t index_;
  uint32_t round_ = 0;
  std::vector<std::vector<std::byte>> got_;  ///< by member: bytes received so far of data that is larger than a buffer
};

}  // namespace

// The first member creates the shared memory and sends its name to the others. If any member can't open it, for example
// on another host or in another container, all members use messages.
std::unique_ptr<Transport> make_transport(Peers& peers, Channel channel, std::vector<size_t> group) {
  const RankConfig& world = peers.world();
  const auto index = static_cast<size_t>(std::ranges::find(group, world.rank) - group.begin());
  auto messages = std::make_unique<MessageTransport>(peers, channel, group, index);
  if (group.size() == 1 || !all_can(*messages, world.shared_memory, world.timeout)) return messages;
  const size_t size = group.size() * sizeof(Member);
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
  return std::make_unique<SharedMemoryTransport>(peers, std::move(memory), std::move(group), index);
}

}  // namespace folio::infer
