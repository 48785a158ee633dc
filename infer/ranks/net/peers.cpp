#include "infer/ranks/net/peers.h"

#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/unbound_buffer.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "infer/forward/machine_lost.h"
#include "infer/ranks/net/rendezvous.h"

namespace folio::infer {
namespace {

using std::chrono::milliseconds;

// A message's length and first bytes are sent as one frame of at most this size. The rest of a longer message follows.
constexpr size_t kFrame = size_t{64} << 10U;
constexpr size_t kHead = sizeof(uint64_t);

// The key-value store that Gloo reads while it connects: key "N" has the addresses of rank N. Gloo also reads host
// names (key "rank_N") to count the ranks of each host, a number that is not used here.
class Addresses final : public gloo::rendezvous::Store {
 public:
  explicit Addresses(Rendezvous& rendezvous) : rendezvous_(rendezvous) {}
  void set(const std::string& key, const std::vector<char>& data) override {
    if (is_number(key)) all_ = rendezvous_.gather({data.begin(), data.end()});
  }
  std::vector<char> get(const std::string& key) override {
    if (!is_number(key)) return {};
    const std::string& text = all_.at(std::stoul(key));
    return {text.begin(), text.end()};
  }
  void wait(const std::vector<std::string>& /*keys*/) override {}

 private:
  [[nodiscard]] static bool is_number(const std::string& key) {
    return key.find_first_not_of("0123456789") == std::string::npos;
  }
  Rendezvous& rendezvous_;
  std::vector<std::string> all_;
};

// A buffer for messages in one direction between this rank and another.
class Buffer {
 public:
  void resize(gloo::Context& context, size_t n) {
    if (gloo_ && gloo_->size >= n) return;
    gloo_.reset();
    bytes_.resize(n);
    gloo_ = context.createUnboundBuffer(bytes_.data(), bytes_.size());
  }
  [[nodiscard]] gloo::transport::UnboundBuffer& gloo() { return *gloo_; }
  [[nodiscard]] std::byte* data() { return bytes_.data(); }
  /// Wakes all threads that wait for a transfer of this buffer.
  void abort() {
    if (!gloo_) return;
    gloo_->abortWaitRecv();
    gloo_->abortWaitSend();
  }

 private:
  std::vector<std::byte> bytes_;
  std::unique_ptr<gloo::transport::UnboundBuffer> gloo_;  ///< declared after bytes_, so that it is destroyed first
};

struct Outbox {
  Buffer frame;
  Buffer rest;
  bool frame_is_out = false;  ///< the frame was sent and may not have been received yet
  bool rest_is_out = false;
};

struct Inbox {
  Buffer frame;
  Buffer rest;
  std::vector<std::byte> message;
  bool is_requested = false;  ///< a receive of the next frame was already started, which saves a round trip
};

}  // namespace

struct Peers::Own {
  explicit Own(const RankConfig& w) : world(w), out(w.n_ranks), in(w.n_ranks) {}

  [[nodiscard]] std::string gone(size_t rank) const {
    return fmt::format("rank {} of {} disconnected; check its output and restart all ranks", rank, world.n_ranks);
  }
  [[nodiscard]] std::string too_late(size_t rank, std::chrono::seconds timeout) const {
    return fmt::format("rank {} of {} did not respond within {} s (FOLIO_RANK_TIMEOUT); restart all ranks", rank,
                       world.n_ranks, timeout.count());
  }

  void lose(const std::string& why) {
    const std::lock_guard lock(mutex);
    if (lost) return;
    why_lost = why;
    lost = true;
    // Wakes all waiting threads. Gloo doesn't wake those that have received only a part of the lost rank's message.
    const auto abort = [](auto& boxes_of_all) {
      for (auto& boxes : boxes_of_all) {
        for (auto& box : boxes) {
          box.frame.abort();
          box.rest.abort();
        }
      }
    };
    abort(in);
    abort(out);
  }

  void request(size_t from, size_t channel) {
    Inbox& box = in[from][channel];
    try {
      box.frame.gloo().recv(static_cast<int>(from), slot(static_cast<Channel>(channel), false), 0, kFrame);
      box.is_requested = true;
    } catch (const std::exception&) {
      // Ignored: the rank may have shut down after its last message. Otherwise, the next receive() throws.
    }
  }

  // Resizes a buffer, or throws if a rank is lost: lose() doesn't abort buffers that are created later.
  void resize(Buffer& buffer, size_t n) {
    const std::lock_guard lock(mutex);
    if (lost) throw MachineLost(why_lost);
    buffer.resize(*context, n);
  }

  // Runs a Gloo operation and throws MachineLost if it fails. Gloo's errors don't tell the cause: an error after
  // `timeout` means that the rank is too slow, an earlier one that it has closed its connections. After a loss, throws
  // without running the operation, since lose() aborts only waits that have begun.
  template <typename Operation>
  void with(size_t rank, std::chrono::seconds timeout, Operation&& operation) {
    check();
    const auto start = std::chrono::steady_clock::now();
    try {
      operation();
    } catch (const std::exception&) {
      const bool late = std::chrono::steady_clock::now() - start >= timeout;
      lose(late ? too_late(rank, timeout) : gone(rank));
    }
    check();
  }
  void check() const {
    if (lost) throw MachineLost(why());
  }
  [[nodiscard]] std::string why() const {
    const std::lock_guard lock(mutex);
    return why_lost;
  }

  [[nodiscard]] static uint64_t slot(Channel channel, bool rest) { return 2 * static_cast<uint64_t>(channel) + rest; }

  const RankConfig world;
  std::shared_ptr<gloo::transport::Device> device;
  std::shared_ptr<gloo::rendezvous::Context> context;
  std::vector<std::array<Outbox, kChannels>> out;
  std::vector<std::array<Inbox, kChannels>> in;
  std::vector<std::thread> watchers;
  std::atomic<bool> leaves = false;
  std::atomic<bool> lost = false;
  mutable std::mutex mutex;  ///< guards why_lost, and buffers that lose() aborts while they are resized
  std::string why_lost;
};

Peers::Peers(const RankConfig& world) : own_(std::make_unique<Own>(world)) {
  std::signal(SIGPIPE, SIG_IGN);  // Gloo may write to a closed connection
  Rendezvous rendezvous(world);
  const auto n = static_cast<int>(world.n_ranks);
  try {
    own_->device = gloo::transport::tcp::CreateDevice(gloo::transport::tcp::attr(rendezvous.own_address().c_str()));
    own_->context = std::make_shared<gloo::rendezvous::Context>(static_cast<int>(world.rank), n);
    own_->context->setTimeout(world.timeout);
    Addresses addresses(rendezvous);
    own_->context->connectFullMesh(addresses, own_->device);
  } catch (const core::Error&) {
    throw;
  } catch (const std::exception& error) {
    core::fail("rank {} of {} cannot connect to the others: {}", world.rank, world.n_ranks, error.what());
  }
  for (size_t rank = 0; rank < world.n_ranks; ++rank) {
    if (rank == world.rank) continue;
    for (size_t c = 0; c < kChannels; ++c) {
      own_->out[rank][c].frame.resize(*own_->context, kFrame);
      own_->in[rank][c].frame.resize(*own_->context, kFrame);
      own_->request(rank, c);
    }
  }
  for (size_t rank = 0; rank < world.n_ranks; ++rank) {
    if (rank == world.rank) continue;
    own_->watchers.emplace_back([this, rank] {  // runs until the other rank shuts down or is lost
      gloo::transport::UnboundBuffer& buffer = own_->in[rank][static_cast<size_t>(Channel::Watch)].frame.gloo();
      try {
        buffer.waitRecv(milliseconds(kForever));
      } catch (const std::exception& error) {
        // After a timeout in this process, Gloo fails all of its connections. Then `rank` itself is not lost.
        const bool by_timeout = std::strstr(error.what(), "Application timeout") != nullptr;
        if (!own_->leaves && !by_timeout) own_->lose(own_->gone(rank));
      }
    });
  }
}

Peers::~Peers() {
  if (!own_->context) return;
  own_->leaves = true;
  for (size_t rank = 0; rank < own_->in.size(); ++rank) {
    if (rank != own_->world.rank) own_->in[rank][static_cast<size_t>(Channel::Watch)].frame.gloo().abortWaitRecv();
  }
  for (std::thread& watcher : own_->watchers) watcher.join();
  own_->context->closeConnections();
}

const RankConfig& Peers::world() const { return own_->world; }

void Peers::send(size_t to, Channel channel, std::span<const std::byte> bytes) {
  wait_until_taken(to, channel);
  Outbox& box = own_->out[to][static_cast<size_t>(channel)];
  own_->with(to, own_->world.timeout, [&] {
    const uint64_t size = bytes.size();
    const size_t first = std::min(bytes.size(), kFrame - kHead);
    std::memcpy(box.frame.data(), &size, kHead);
    std::copy_n(bytes.begin(), first, box.frame.data() + kHead);
    box.frame.gloo().send(static_cast<int>(to), Own::slot(channel, false), 0, kHead + first);
    box.frame_is_out = true;
    if (first < bytes.size()) {
      own_->resize(box.rest, bytes.size() - first);
      std::copy(bytes.begin() + static_cast<std::ptrdiff_t>(first), bytes.end(), box.rest.data());
      box.rest.gloo().send(static_cast<int>(to), Own::slot(channel, true), 0, bytes.size() - first);
      box.rest_is_out = true;
    }
  });
}

void Peers::wait_until_taken(size_t to, Channel channel) {
  Outbox& box = own_->out[to][static_cast<size_t>(channel)];
  const auto timeout = own_->world.timeout;
  own_->with(to, timeout, [&] {
    if (std::exchange(box.frame_is_out, false)) box.frame.gloo().waitSend(timeout);
    if (std::exchange(box.rest_is_out, false)) box.rest.gloo().waitSend(timeout);
  });
}

std::span<const std::byte> Peers::receive(size_t from, Channel channel, std::chrono::seconds timeout) {
  Inbox& box = own_->in[from][static_cast<size_t>(channel)];
  own_->with(from, timeout, [&] {
    if (!box.is_requested) box.frame.gloo().recv(static_cast<int>(from), Own::slot(channel, false), 0, kFrame);
    box.is_requested = false;
    box.frame.gloo().waitRecv(timeout);
    uint64_t size = 0;
    std::memcpy(&size, box.frame.data(), kHead);
    const size_t first = std::min(size, kFrame - kHead);
    box.message.assign(box.frame.data() + kHead, box.frame.data() + kHead + first);
    own_->request(from, static_cast<size_t>(channel));
    if (first == size) return;
    own_->resize(box.rest, size - first);
    box.rest.gloo().recv(static_cast<int>(from), Own::slot(channel, true), 0, size - first);
    box.rest.gloo().waitRecv(timeout);
    box.message.insert(box.message.end(), box.rest.data(), box.rest.data() + (size - first));
  });
  return box.message;
}

void Peers::receive_floats(size_t from, Channel channel, std::span<float> values) {
  const auto bytes = receive(from, channel, world().timeout);
  core::require(bytes.size() == values.size_bytes(), "received a message of another step from rank {}", from);
  std::memcpy(values.data(), bytes.data(), bytes.size());
}

void Peers::shutdown() {
  if (own_->lost || own_->leaves.exchange(true)) return;
  for (size_t rank = 0; rank < own_->in.size(); ++rank) {
    if (rank == own_->world.rank) continue;
    try {
      send(rank, Channel::Watch, {});
      own_->out[rank][static_cast<size_t>(Channel::Watch)].frame.gloo().waitSend(milliseconds(1000));
    } catch (const std::exception&) {
      // Ignored: the other rank has already ended.
    }
  }
}

std::optional<std::string> Peers::loss() const {
  if (!own_->lost) return {};
  return own_->why();
}

void Peers::check() const { own_->check(); }

void Peers::mark_failed(const std::string& why) { own_->lose(why); }

void Peers::lose_rank(size_t rank, std::chrono::seconds timeout) {
  own_->lose(own_->too_late(rank, timeout));
  throw MachineLost(own_->why());
}

}  // namespace folio::infer
