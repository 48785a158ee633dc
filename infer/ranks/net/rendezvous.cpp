#include "infer/ranks/net/rendezvous.h"

#include <fmt/ranges.h>

#include <array>
#include <thread>

#include "core/error.h"

namespace folio::infer {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::array<char, 8> kGreeting = {'f', 'o', 'l', 'i', 'o', '-', 'r', '1'};
constexpr uint32_t kMostBytes = 1U << 20U;           ///< maximum size of the string that a rank sends
constexpr std::chrono::seconds kGreetingTimeout{2};  ///< a connection that is silent for this long is not from a rank

struct Hello {
  std::array<char, 8> greeting = kGreeting;
  uint32_t rank = 0;
  uint32_t n_ranks = 0;
};

template <typename T>
void put(std::ostream& to, const T& value) {
  to.write(reinterpret_cast<const char*>(&value), sizeof value);
}

void put_text(std::ostream& to, const std::string& text) {
  put(to, static_cast<uint32_t>(text.size()));
  to << text;
}

template <typename T>
bool get(std::istream& from, T& value) {
  return static_cast<bool>(from.read(reinterpret_cast<char*>(&value), sizeof value));
}

bool get_text(std::istream& from, std::string& text) {
  uint32_t size = 0;
  if (!get(from, size) || size > kMostBytes) return false;
  text.resize(size);
  return static_cast<bool>(from.read(text.data(), size));
}

}  // namespace

Rendezvous::Rendezvous(const RankConfig& world) : world_(world), deadline_(Clock::now() + world.timeout) {
  world_.rank == 0 ? listen() : reach();
}

Rendezvous::Tcp::resolver::results_type Rendezvous::resolve(boost::system::error_code& error) {
  return Tcp::resolver(context_).resolve(world_.address, std::to_string(world_.port), Tcp::resolver::flags(), error);
}

void Rendezvous::listen() {
  boost::system::error_code error;
  const auto addresses = resolve(error);
  core::require(!error, "rank 0: MASTER_ADDR={}: cannot resolve this host: {}; set it to the host of rank 0",
                core::printable(world_.address), error.message());
  const Tcp::endpoint first = addresses.begin()->endpoint();
  acceptor_.open(first.protocol(), error);
  if (!error) acceptor_.set_option(Tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor_.bind(first, error);
  if (!error) acceptor_.listen(64, error);
  core::require(!error,
                "rank 0 cannot listen on {} port {}: {}; set another MASTER_PORT, and MASTER_ADDR to rank 0's host",
                core::printable(world_.address), world_.port, error.message());
  own_address_ = acceptor_.local_endpoint().address().to_string();
}

// Connects to rank 0, with retries until the deadline: rank 0 may start later, and so may its host, whose name is then
// unknown for a while.
void Rendezvous::reach() {
  Tcp::iostream& leader = others_.emplace_back();
  boost::system::error_code error;
  do {
    const auto addresses = resolve(error);
    for (const auto& address : addresses) {
      leader.clear();
      leader.expires_at(deadline_ + kGreetingTimeout);
      leader.connect(address.endpoint());
      error = leader.error();
      if (!leader) continue;
      own_address_ = leader.socket().local_endpoint().address().to_string();
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(addresses.empty() ? 500 : 20));
  } while (Clock::now() < deadline_);
  core::fail(
      "rank {} of {} could not reach rank 0 at {} port {} within {} s: {}; start all ranks with the same MASTER_ADDR "
      "and MASTER_PORT",
      world_.rank, world_.n_ranks, core::printable(world_.address), world_.port, world_.timeout.count(),
      error.message());
}

std::vector<std::string> Rendezvous::gather(const std::string& own) {
  if (world_.rank == 0) return gather_all(own);
  Tcp::iostream& leader = others_.front();
  put(leader, Hello{.rank = static_cast<uint32_t>(world_.rank), .n_ranks = static_cast<uint32_t>(world_.n_ranks)});
  put_text(leader, own);
  leader.flush();
  std::vector<std::string> all(world_.n_ranks);
  std::array<char, 8> greeting{};
  bool good = get(leader, greeting) && greeting == kGreeting;
  for (std::string& text : all) good = good && get_text(leader, text);
  core::require(good, "rank {} of {} got no response from rank 0 at {} port {}; check the output of rank 0",
                world_.rank, world_.n_ranks, core::printable(world_.address), world_.port);
  return all;
}

bool Rendezvous::wait_for_connection() {
  bool is_there = false;
  acceptor_.async_wait(Tcp::acceptor::wait_read, [&](const auto& error) { is_there = !error; });
  context_.restart();
  context_.run_one_until(deadline_);
  return is_there;
}

std::vector<std::string> Rendezvous::gather_all(const std::string& own) {
  std::vector<std::string> all(world_.n_ranks);
  all[0] = own;
  std::vector<bool> here(world_.n_ranks);
  here[0] = true;
  while (others_.size() + 1 < world_.n_ranks) {
    if (!wait_for_connection()) {
      std::vector<size_t> missing;
      for (size_t rank = 0; rank < world_.n_ranks; ++rank) {
        if (!here[rank]) missing.push_back(rank);
      }
      const bool is_hidden = world_.n_local < world_.n_ranks && acceptor_.local_endpoint().address().is_loopback();
      core::fail("rank{} {} of {} did not connect to {} port {} within {} s; start all ranks{}",
                 missing.size() > 1 ? "s" : "", fmt::join(missing, ", "), world_.n_ranks,
                 core::printable(world_.address), world_.port, world_.timeout.count(),
                 is_hidden ? fmt::format(", and set MASTER_ADDR to an address that other hosts can reach, not {}",
                                         own_address_)
                           : "");
    }
    Tcp::iostream& other = others_.emplace_back();
    boost::system::error_code error;
    acceptor_.accept(other.socket(), error);
    other.expires_after(kGreetingTimeout);
    Hello hello;
    std::string text;
    if (error || !get(other, hello) || hello.greeting != kGreeting || !get_text(other, text)) {
      others_.pop_back();  // not a connection from a rank
      continue;
    }
    core::require(hello.n_ranks == world_.n_ranks, "rank {} was started with WORLD_SIZE={}, but rank 0 with {}",
                  hello.rank, hello.n_ranks, world_.n_ranks);
    core::require(hello.rank < world_.n_ranks && !here[hello.rank],
                  "two processes are rank {} of {}; give each a different RANK", hello.rank, world_.n_ranks);
    here[hello.rank] = true;
    all[hello.rank] = text;
  }
  // Errors are ignored: if a rank is lost, others notice when they connect to it.
  for (Tcp::iostream& other : others_) {
    other.expires_after(kGreetingTimeout);
    put(other, kGreeting);
    for (const std::string& text : all) put_text(other, text);
    other.flush();
  }
  return all;
}

}  // namespace folio::infer
