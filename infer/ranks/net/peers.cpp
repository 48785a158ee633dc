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
#include <future>
#include <mutex>
#include <utility>
#include <vector>

#include "infer/forward/machine.h"
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

class GlooPeers final : public Peers {
 public:
  explicit GlooPeers(const RankConfig& world)
      : Peers(world), out_(world.n_ranks), in_(world.n_ranks), watchers_(world.n_ranks) {
    std::signal(SIGPIPE, SIG_IGN);  // Gloo may write to a closed connection
    Rendezvous rendezvous(world);
    const auto n = static_cast<int>(world.n_ranks);
    try {
      device_ = gloo::transport::tcp::CreateDevice(gloo::transport::tcp::attr(rendezvous.own_address().c_str()));
      context_ = std::make_shared<gloo::rendezvous::Context>(static_cast<int>(world.rank), n);
      context_->setTimeout(world.timeout);
      Addresses addresses(rendezvous);
      context_->connectFullMesh(addresses, device_);
    } catch (const core::Error&) {
      throw;
    } catch (const std::exception& error) {
      core::fail("rank {} of {} cannot connect to the others: {}", world.rank, world.n_ranks, error.what());
    }
    for_others([this](size_t rank) {
      for (size_t c = 0; c < kChannels; ++c) {
        out_[rank][c].frame.resize(*context_, kFrame);
        in_[rank][c].frame.resize(*context_, kFrame);
        request(rank, static_cast<Channel>(c));
      }
    });
    try {
      for_others(
          [this](size_t rank) { watchers_[rank] = std::async(std::launch::async, [this, rank] { watch(rank); }); });
    } catch (const std::system_error&) {
      end_watchers();
      throw;
    }
  }

  ~GlooPeers() override {
    end_watchers();
    context_->closeConnections();
  }

  void send(size_t to, Channel channel, std::span<const std::byte> bytes) override {
    wait_until_taken(to, channel);
    Outbox& box = outbox(to, channel);
    with(to, world_.timeout, [&] {
      const uint64_t size = bytes.size();
      const size_t first = std::min(bytes.size(), kFrame - kHead);
      std::memcpy(box.frame.data(), &size, kHead);
      std::copy_n(bytes.begin(), first, box.frame.data() + kHead);
      box.frame.gloo().send(static_cast<int>(to), slot(channel, false), 0, kHead + first);
      box.frame_is_out = true;
      if (first < bytes.size()) {
        resize(box.rest, bytes.size() - first);
        std::copy(bytes.begin() + static_cast<std::ptrdiff_t>(first), bytes.end(), box.rest.data());
        box.rest.gloo().send(static_cast<int>(to), slot(channel, true), 0, bytes.size() - first);
        box.rest_is_out = true;
      }
    });
  }

  void wait_until_taken(size_t to, Channel channel) override {
    Outbox& box = outbox(to, channel);
    with(to, world_.timeout, [&] {
      if (std::exchange(box.frame_is_out, false)) box.frame.gloo().waitSend(world_.timeout);
      if (std::exchange(box.rest_is_out, false)) box.rest.gloo().waitSend(world_.timeout);
    });
  }

  std::span<const std::byte> receive(size_t from, Channel channel, std::chrono::seconds timeout) override {
    Inbox& box = inbox(from, channel);
    with(from, timeout, [&] {
      if (!box.is_requested) box.frame.gloo().recv(static_cast<int>(from), slot(channel, false), 0, kFrame);
      box.is_requested = false;
      box.frame.gloo().waitRecv(timeout);
      uint64_t size = 0;
      std::memcpy(&size, box.frame.data(), kHead);
      const size_t first = std::min(size, kFrame - kHead);
      box.message.assign(box.frame.data() + kHead, box.frame.data() + kHead + first);
      request(from, channel);
      if (first == size) return;
      resize(box.rest, size - first);
      box.rest.gloo().recv(static_cast<int>(from), slot(channel, true), 0, size - first);
      box.rest.gloo().waitRecv(timeout);
      box.message.insert(box.message.end(), box.rest.data(), box.rest.data() + (size - first));
    });
    return box.message;
  }

  void receive_floats(size_t from, Channel channel, std::span<float> values) override {
    const auto bytes = receive(from, channel, world_.timeout);
    core::require(bytes.size() == values.size_bytes(), "received a message of another step from rank {}", from);
    std::memcpy(values.data(), bytes.data(), bytes.size());
  }

  void check() const override {
    if (lost_) throw MachineLost(why());
  }

  void shutdown(std::string_view error) override {
    if (leaves_.exchange(true) || (lost_ && !has_reason_)) return;
    std::string reason;
    if (!error.empty()) {  // another rank's reason is passed on, since it may reach the others after this message
      reason = lost_ ? why() : fmt::format("rank {} of {} failed: {}", world_.rank, world_.n_ranks, error);
    }
    const uint64_t size = std::min(reason.size(), kFrame - kHead);
    // Sends to all ranks before waiting for any of them. Waiting for a rank that has already ended times out, and Gloo
    // then closes all connections. A rank that had not received the message yet would treat this rank as lost.
    std::vector<size_t> told;
    for_others([&](size_t rank) {
      try {
        Buffer& frame = outbox(rank, Channel::Watch).frame;
        std::memcpy(frame.data(), &size, kHead);
        std::memcpy(frame.data() + kHead, reason.data(), size);
        frame.gloo().send(static_cast<int>(rank), slot(Channel::Watch, false), 0, kHead + size);
        told.push_back(rank);
      } catch (const std::exception&) {
        // Ignored: the rank has already ended.
      }
    });
    for (const size_t rank : told) {
      try {
        outbox(rank, Channel::Watch).frame.gloo().waitSend(milliseconds(1000));
      } catch (const std::exception&) {
        // Ignored: the rank ended before it received the message.
      }
    }
  }

  [[nodiscard]] std::optional<std::string> loss() const override { return lost_ ? std::optional(why()) : std::nullopt; }

  void mark_failed(const std::string& why) override { mark_failed(why, false); }
  void mark_failed(const std::string& why, bool is_reason) {
    const std::lock_guard lock(mutex_);
    if (lost_) return;
    why_lost_ = why;
    has_reason_ = is_reason;
    lost_ = true;
    // Wakes all waiting threads. Gloo doesn't wake a thread that has received only a part of the lost rank's message.
    const auto abort = [](auto& boxes_of_all) {
      for (auto& boxes : boxes_of_all) {
        for (auto& box : boxes) {
          box.frame.abort();
          box.rest.abort();
        }
      }
    };
    abort(in_);
    abort(out_);
  }

  [[noreturn]] void lose_rank(size_t rank, std::chrono::seconds timeout) override {
    mark_failed(too_late(rank, timeout));
    throw MachineLost(why());
  }

 private:
  [[nodiscard]] static uint64_t slot(Channel channel, bool rest) { return 2 * static_cast<uint64_t>(channel) + rest; }
  [[nodiscard]] Outbox& outbox(size_t rank, Channel channel) { return out_[rank][static_cast<size_t>(channel)]; }
  [[nodiscard]] Inbox& inbox(size_t rank, Channel channel) { return in_[rank][static_cast<size_t>(channel)]; }
  template <typename Body>
  void for_others(Body&& body) {
    for (size_t rank = 0; rank < world_.n_ranks; ++rank) {
      if (rank != world_.rank) body(rank);
    }
  }

  [[nodiscard]] std::string gone(size_t rank) const {
    return fmt::format("rank {} of {} disconnected; check its output and restart all ranks", rank, world_.n_ranks);
  }
  [[nodiscard]] std::string too_late(size_t rank, std::chrono::seconds timeout) const {
    return fmt::format("rank {} of {} did not respond within {} s (FOLIO_RANK_TIMEOUT); restart all ranks", rank,
                       world_.n_ranks, timeout.count());
  }
  [[nodiscard]] std::string why() const {
    const std::lock_guard lock(mutex_);
    return why_lost_;
  }

  // Waits until another rank shuts down, fails or is lost.
  void watch(size_t rank) {
    try {
      Buffer& frame = inbox(rank, Channel::Watch).frame;
      if (!frame.gloo().waitRecv(milliseconds(kForever))) return;  // aborted
      uint64_t size = 0;
      std::memcpy(&size, frame.data(), kHead);
      const std::string reason(reinterpret_cast<const char*>(frame.data() + kHead), std::min(size, kFrame - kHead));
      if (!reason.empty()) mark_failed(reason, true);
    } catch (const std::exception& error) {
      // After a timeout, Gloo closes all connections of this process, so this error doesn't mean that `rank` is lost.
      const bool by_timeout = std::strstr(error.what(), "Application timeout") != nullptr;
      if (!leaves_ && !by_timeout) mark_failed(gone(rank));
    }
  }

  void end_watchers() {
    leaves_ = true;
    for_others([this](size_t rank) { inbox(rank, Channel::Watch).frame.gloo().abortWaitRecv(); });
    for (const std::future<void>& watcher : watchers_) {
      if (watcher.valid()) watcher.wait();
    }
  }

  // Starts to receive the next frame.
  void request(size_t from, Channel channel) {
    Inbox& box = inbox(from, channel);
    try {
      box.frame.gloo().recv(static_cast<int>(from), slot(channel, false), 0, kFrame);
      box.is_requested = true;
    } catch (const std::exception&) {
      // Ignored: the rank may have shut down after its last message. Otherwise, the next receive() throws.
    }
  }

  // Resizes a buffer, or throws if a rank is lost: mark_failed() doesn't abort buffers that are created later.
  void resize(Buffer& buffer, size_t n) {
    const std::lock_guard lock(mutex_);
    if (lost_) throw MachineLost(why_lost_);
    buffer.resize(*context_, n);
  }

  // Runs a Gloo operation and throws MachineLost if it fails. Gloo's errors don't state the cause. If `timeout` has
  // passed, `rank` is too slow; otherwise `rank` has closed its connections. If a rank is already lost, throws without
  // running the operation, since mark_failed() aborts only waits that have begun.
  template <typename Operation>
  void with(size_t rank, std::chrono::seconds timeout, Operation&& operation) {
    check();
    const auto start = std::chrono::steady_clock::now();
    try {
      operation();
    } catch (const std::exception&) {
      const bool late = std::chrono::steady_clock::now() - start >= timeout;
      if (!late) watchers_[rank].wait_for(milliseconds(1000));  // the watcher may be receiving an error from `rank`
      mark_failed(late ? too_late(rank, timeout) : gone(rank));
    }
    check();
  }

  std::shared_ptr<gloo::transport::Device> device_;
  std::shared_ptr<gloo::rendezvous::Context> context_;
  std::vector<std::array<Outbox, kChannels>> out_;
  std::vector<std::array<Inbox, kChannels>> in_;
  std::vector<std::future<void>> watchers_;
  std::atomic<bool> leaves_ = false;
  std::atomic<bool> lost_ = false;
  std::atomic<bool> has_reason_ = false;  ///< another rank has sent why it failed
  mutable std::mutex mutex_;  ///< guards why_lost_, and prevents resizing a buffer while mark_failed() aborts it
  std::string why_lost_;
};

}  // namespace

std::unique_ptr<Peers> Peers::connect(const RankConfig& world) { return std::make_unique<GlooPeers>(world); }

}  // namespace folio::infer
