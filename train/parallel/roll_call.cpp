#include "train/parallel/roll_call.h"

#include <algorithm>
#include <csignal>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <utility>

#include "core/error.h"
#include "train/parallel/group.h"

namespace folio::train::parallel {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kAnswer{3000};          // time for a live process to answer, on a busy machine
constexpr milliseconds kVerdict{12000};        // time for the first failing rank to determine which ranks are lost
constexpr milliseconds kPatience{5000};        // time for the main thread to end after another rank's failure
constexpr milliseconds kVerdictTimeout{1000};  // time for the listener thread to receive the report of the failure
constexpr milliseconds kForEver = std::chrono::hours(24 * 365);

std::string alarm_for(int64_t rank) { return fmt::format("alarm {}", rank); }
std::string answer_of(int64_t rank) { return fmt::format("answer {}", rank); }
std::string verdict_key(int64_t rank) { return fmt::format("verdict read {}", rank); }
std::string place_of(int64_t rank) { return fmt::format("place {}", rank); }

// Writes to the store and ignores errors: if the store is lost, the next call that needs another rank reports it.
void try_put(c10d::Store& store, const std::string& key, const std::string& text) {
  try {
    put(store, key, text);
  } catch (const std::exception&) {
  }
}

}  // namespace

RollCall::RollCall(const Launch& launch, c10::intrusive_ptr<c10d::Store> store,
                   c10::intrusive_ptr<c10d::Store> listener, std::function<void(const std::string&)> end)
    : launch_(launch), store_(std::move(store)), listener_(std::move(listener)), end_(std::move(end)) {
  for (int64_t rank = 0; rank < launch.n_ranks; ++rank) {
    if (rank != launch.rank) others_.push_back(rank);
  }
  note(0, false);
  thread_ = std::thread([this] { listen(); });
}

RollCall::~RollCall() { stop(); }

void RollCall::stop() {
  if (!thread_.joinable()) return;
  stopped_ = true;
  try_put(*store_, alarm_for(launch_.rank), "");
  thread_.join();
}

void RollCall::note(int64_t step, bool in_step) {
  step_ = step;
  in_step_ = in_step;
  try_put(*store_, place_of(launch_.rank), std::to_string(step));
}

void RollCall::listen() {
  std::string verdict;
  try {
    listener_->wait({alarm_for(launch_.rank)}, kForEver);
    if (stopped_) return;
    put(*listener_, answer_of(launch_.rank), fmt::format("{} {}", in_step_ ? "in" : "before", step_.load()));
    if (!comes(*listener_, "verdict", kVerdict)) return;
    verdict = get(*listener_, "verdict");
    verdict_.set_value(verdict);
  } catch (const std::exception&) {
    if (stopped_) return;
    verdict = store_is_gone();
  }
  try_put(*listener_, verdict_key(launch_.rank), "");
  for (milliseconds waited{0}; waited < kPatience; waited += milliseconds(50)) {
    if (stopped_) return;
    std::this_thread::sleep_for(milliseconds(50));
  }
  end_(verdict);
}

std::string RollCall::store_is_gone() const {
  return fmt::format("{} is gone and the store at {}:{} is lost", launch_.agent_has_store ? "torchrun" : "rank 0",
                     launch_.address, launch_.port);
}

std::string RollCall::explain(const std::exception& error) {
  const std::string why = first_line(error);
  if (std::exchange(explained_, true)) return why;
  std::signal(SIGTERM, SIG_IGN);  // torchrun sends SIGTERM as soon as one rank has ended; this rank must report first
  const bool own = dynamic_cast<const RankLost*>(&error) == nullptr;
  try {
    // The first rank to fail publishes the cause of the failure; the others wait for it.
    const std::string first = std::to_string(launch_.rank);
    const std::vector<uint8_t> ours(first.begin(), first.end());
    std::string verdict = own ? fmt::format("rank {}: {}", launch_.rank, why) : why;
    if (store_->compareSet("first to fail", {}, ours) == ours) {
      for (const int64_t rank : others_) put(*store_, alarm_for(rank), "");
      if (!own) verdict = call_roll(why);
      put(*store_, "verdict", verdict);
    } else if (comes(*store_, "verdict", kVerdict)) {
      verdict = get(*store_, "verdict");
    }
    put(*store_, verdict_key(launch_.rank), "");
    if (launch_.has_store()) missing_keys(*store_, others_, verdict_key, kAnswer);
    return own ? why : verdict;
  } catch (const std::exception&) {
    if (own) return why;
    auto verdict = verdict_.get_future();
    return verdict.wait_for(kVerdictTimeout) == std::future_status::ready ? verdict.get() : store_is_gone();
  }
}

std::string RollCall::call_roll(const std::string& why) {
  std::string gone, away;
  const std::vector<int64_t> silent = missing_keys(*store_, others_, answer_of, kAnswer);
  const auto add = [&](std::string& list, int64_t rank, const char* what) {
    list += fmt::format("{}rank {} {} (last seen at step {})", list.empty() ? "" : ", ", rank, what,
                        get(*store_, place_of(rank)));
  };
  for (const int64_t rank : others_) {
    if (std::find(silent.begin(), silent.end(), rank) != silent.end()) {
      add(gone, rank, "is gone");
    } else if (get(*store_, answer_of(rank)).starts_with("before")) {
      add(away, rank, "is stalled");
    }
  }
  if (!gone.empty() || !away.empty()) return gone.empty() ? away : gone;
  return fmt::format("rank {}, step {}: {}", launch_.rank, step_.load(), why);
}

void RollCall::leave() {
  put(*store_, fmt::format("left {}", launch_.rank), "");
  for (const int64_t rank : others_) comes(*store_, fmt::format("left {}", rank), kVerdict);
  stop();
  // The process that runs the store must end last, since the others need the store.
  put(*store_, fmt::format("gone {}", launch_.rank), "");
  if (!launch_.has_store()) return;
  for (const int64_t rank : others_) comes(*store_, fmt::format("gone {}", rank), kVerdict);
}

}  // namespace folio::train::parallel
