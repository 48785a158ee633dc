#include "infer/ranks/net/rendezvous.h"

#include <fmt/ranges.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>

#include "core/error.h"

namespace folio::infer {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::array<char, 8> kGreeting = {'f', 'o', 'l', 'i', 'o', '-', 'r', '1'};
constexpr uint32_t kMostBytes = 1U << 20U;      ///< maximum size of the string that a rank sends
constexpr milliseconds kGreetingTimeout{2000};  ///< a connection that sends nothing for this long is not from a rank

struct Hello {
  std::array<char, 8> greeting = kGreeting;
  uint32_t rank = 0;
  uint32_t n_ranks = 0;
};

using AddressList = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

AddressList resolve(const RankConfig& world) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(world.address.c_str(), std::to_string(world.port).c_str(), &hints, &found);
  core::require(error == 0, "MASTER_ADDR={}: cannot resolve this host: {}", core::printable(world.address),
                ::gai_strerror(error));
  return {found, ::freeaddrinfo};
}

std::string address_of(int socket) {
  sockaddr_storage storage{};
  auto* address = reinterpret_cast<sockaddr*>(&storage);
  socklen_t size = sizeof(storage);
  ::getsockname(socket, address, &size);
  std::array<char, NI_MAXHOST> text{};
  ::getnameinfo(address, size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST);
  return text.data();
}

bool wait_for(int socket, Clock::time_point deadline) {
  while (true) {
    const auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now());
    if (left.count() <= 0) return false;
    pollfd waiting{.fd = socket, .events = POLLIN, .revents = 0};
    const int n = ::poll(&waiting, 1, static_cast<int>(left.count()));
    if (n > 0) return true;
    if (n < 0 && errno != EINTR) return false;
  }
}

bool read_all(int socket, void* into, size_t n, Clock::time_point deadline) {
  for (size_t done = 0; done < n;) {
    if (!wait_for(socket, deadline)) return false;
    const ssize_t got = ::recv(socket, static_cast<char*>(into) + done, n - done, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    done += static_cast<size_t>(got);
  }
  return true;
}

bool write_all(int socket, const void* from, size_t n) {
  for (size_t done = 0; done < n;) {
    const ssize_t put = ::send(socket, static_cast<const char*>(from) + done, n - done, MSG_NOSIGNAL);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    done += static_cast<size_t>(put);
  }
  return true;
}

bool write_text(int socket, const std::string& text) {
  const auto size = static_cast<uint32_t>(text.size());
  return write_all(socket, &size, sizeof(size)) && write_all(socket, text.data(), size);
}

bool read_text(int socket, std::string& text, Clock::time_point deadline) {
  uint32_t size = 0;
  if (!read_all(socket, &size, sizeof(size), deadline) || size > kMostBytes) return false;
  text.resize(size);
  return read_all(socket, text.data(), size, deadline);
}

}  // namespace

Rendezvous::Rendezvous(const RankConfig& world) : world_(world), deadline_(Clock::now() + world.timeout) {
  world_.rank == 0 ? listen() : reach();
}

Rendezvous::~Rendezvous() {
  for (const int other : others_) ::close(other);
  if (socket_ >= 0) ::close(socket_);
}

void Rendezvous::listen() {
  const AddressList addresses = resolve(world_);
  const addrinfo& first = *addresses;
  socket_ = ::socket(first.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  core::require(socket_ >= 0, "rank 0 cannot create a socket: {}", std::strerror(errno));
  const int on = 1;
  ::setsockopt(socket_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (::bind(socket_, first.ai_addr, first.ai_addrlen) != 0 || ::listen(socket_, 64) != 0) {
    const int error = errno;
    ::close(std::exchange(socket_, -1));
    core::fail("rank 0 cannot listen on {} port {}: {}; set another MASTER_PORT, and MASTER_ADDR to rank 0's host",
               core::printable(world_.address), world_.port, std::strerror(error));
  }
  own_address_ = address_of(socket_);
}

// Connects to rank 0, with retries until the deadline, since rank 0 may start later.
void Rendezvous::reach() {
  const AddressList addresses = resolve(world_);
  int error = 0;
  do {
    for (const addrinfo* a = addresses.get(); a != nullptr; a = a->ai_next) {
      const int socket = ::socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
      if (socket < 0) continue;
      if (::connect(socket, a->ai_addr, a->ai_addrlen) == 0) {
        socket_ = socket;
        own_address_ = address_of(socket);
        return;
      }
      error = errno;
      ::close(socket);
    }
    std::this_thread::sleep_for(milliseconds(20));
  } while (Clock::now() < deadline_);
  core::fail(
      "rank {} of {} could not reach rank 0 at {} port {} within {} s: {}; start all ranks with the same MASTER_ADDR "
      "and MASTER_PORT",
      world_.rank, world_.n_ranks, core::printable(world_.address), world_.port, world_.timeout.count(),
      std::strerror(error));
}

std::vector<std::string> Rendezvous::gather(const std::string& own) {
  if (world_.rank == 0) return gather_all(own);
  const Hello hello{.rank = static_cast<uint32_t>(world_.rank), .n_ranks = static_cast<uint32_t>(world_.n_ranks)};
  std::vector<std::string> all(world_.n_ranks);
  bool good = write_all(socket_, &hello, sizeof(hello)) && write_text(socket_, own);
  std::array<char, 8> greeting{};
  good = good && read_all(socket_, greeting.data(), greeting.size(), deadline_ + kGreetingTimeout) &&
         greeting == kGreeting;
  for (std::string& text : all) good = good && read_text(socket_, text, deadline_ + kGreetingTimeout);
  core::require(good, "rank {} of {} got no response from rank 0 at {} port {}; check the output of rank 0",
                world_.rank, world_.n_ranks, core::printable(world_.address), world_.port);
  return all;
}

std::vector<std::string> Rendezvous::gather_all(const std::string& own) {
  std::vector<std::string> all(world_.n_ranks);
  all[0] = own;
  std::vector<bool> here(world_.n_ranks);
  here[0] = true;
  while (others_.size() + 1 < world_.n_ranks) {
    if (!wait_for(socket_, deadline_)) {
      std::vector<size_t> missing;
      for (size_t rank = 0; rank < world_.n_ranks; ++rank) {
        if (!here[rank]) missing.push_back(rank);
      }
      core::fail("rank{} {} of {} did not connect to {} port {} within {} s; start all ranks",
                 missing.size() > 1 ? "s" : "", fmt::join(missing, ", "), world_.n_ranks,
                 core::printable(world_.address), world_.port, world_.timeout.count());
    }
    const int socket = ::accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC);
    if (socket < 0) continue;
    const auto deadline = Clock::now() + kGreetingTimeout;
    Hello hello;
    std::string text;
    if (!read_all(socket, &hello, sizeof(hello), deadline) || hello.greeting != kGreeting ||
        !read_text(socket, text, deadline)) {
      ::close(socket);  // not a connection from a rank
      continue;
    }
    others_.push_back(socket);
    core::require(hello.n_ranks == world_.n_ranks, "rank {} was started with WORLD_SIZE={}, but rank 0 with {}",
                  hello.rank, hello.n_ranks, world_.n_ranks);
    core::require(hello.rank < world_.n_ranks && !here[hello.rank],
                  "two processes are rank {} of {}; give each a different RANK", hello.rank, world_.n_ranks);
    here[hello.rank] = true;
    all[hello.rank] = text;
  }
  for (const int other : others_) {  // errors are ignored: if a rank is lost, the others notice when they connect to it
    bool good = write_all(other, kGreeting.data(), kGreeting.size());
    for (const std::string& text : all) good = good && write_text(other, text);
  }
  return all;
}

}  // namespace folio::infer
