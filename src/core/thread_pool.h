// A pool of threads for short parallel loops. A loop is cut into pieces by its sizes alone; each thread begins with a
// share of its own, and who has finished takes over what others have not begun. So a thread that the system does not
// run delays nobody, except by the one piece that it is in. Where other programs use the cores, fewer threads take part
// (thread_limit.h), and a short loop is shared only where that was measured to pay (sharing_trials.h). Workers spin for
// a moment between loops, then sleep.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/sharing_trials.h"
#include "core/thread_limit.h"

namespace folio::core {

/// Counts the signals of one thread to another, which may wait for them. A signal costs a system call only if the other
/// thread sleeps.
class SignalCounter {
 public:
  /// One more. Called by one thread only.
  void raise();

  /// Returns how often raise() was called, once that is not `seen`. Called by one thread only; spins for `spins`, then
  /// sleeps.
  uint32_t await_change(uint32_t seen, std::chrono::microseconds spins);

 private:
  std::atomic<uint32_t> state_{0};  ///< twice the count, plus 1 while the waiting thread sleeps
};

class ThreadPool {
 public:
  enum class Sharing : uint8_t { WherePays, Always };

  /// `n_threads` in all, including the caller's; 0 means default_threads(). With Sharing::Always all take part,
  /// whatever that costs. Throws Error if one cannot be started.
  explicit ThreadPool(size_t n_threads = 0, Sharing sharing = Sharing::WherePays);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  [[nodiscard]] size_t size() const { return threads_.size() + 1; }

  /// Calls body(begin, end) on disjoint ranges that cover [0, count), and returns when all have ended. `worth`: about
  /// how many microseconds one thread would take; at most so many threads take part, and a range is worth some of them.
  /// The ranges depend on these numbers and size() alone, and who does which on who is free; where one thread alone
  /// takes part, there is one range. Range borders are multiples of `grain` (at least 1). If bodies throw, throws the
  /// exception of the first range. One caller at a time; `body` must not call the pool.
  template <typename Body>
  void parallel_for(size_t count, size_t grain, size_t worth, Body&& body) {
    const size_t n_grains = (count + grain - 1) / grain;
    const size_t n_threads = std::min({worth, size(), n_grains});
    if (n_threads <= 1) {
      if (count > 0) body(size_t{0}, count);
      return;
    }
    using Plain = std::remove_reference_t<Body>;
    const size_t per_thread =
        std::min(n_grains / n_threads, std::clamp<size_t>(worth / n_threads / kPieceWorth, 1, kMostPieces));
    run({.count = count,
         .grain = grain,
         .n_threads = static_cast<uint32_t>(n_threads),
         .n_pieces = static_cast<uint32_t>(n_threads * per_thread),
         .worth = worth,
         .call = [](void* context, size_t begin, size_t end) { (*static_cast<Plain*>(context))(begin, end); },
         .context = const_cast<void*>(static_cast<const void*>(&body))});
  }
  /// The same for a loop that takes milliseconds.
  template <typename Body>
  void parallel_for(size_t count, size_t grain, Body&& body) {
    parallel_for(count, grain, kLong, std::forward<Body>(body));
  }

 private:
  // A piece takes some microseconds, far more than to take it over does. What a thread waits for at the end is at most
  // a piece, so more of them than these would gain little.
  static constexpr size_t kPieceWorth = 4;
  static constexpr size_t kMostPieces = 48;
  static constexpr size_t kLong = 1000000;

  using Call = void (*)(void* context, size_t begin, size_t end);
  struct Job {
    size_t count = 0;
    size_t grain = 1;
    uint32_t n_threads = 1;
    uint32_t n_pieces = 1;  ///< a multiple of n_threads: share i are the i-th n_pieces / n_threads
    size_t worth = 0;       ///< microseconds that one thread takes for it
    Call call = nullptr;
    void* context = nullptr;
  };

  // A thread's share: the caller's is the first. It is one cache line, so that a worker receives all of it at once.
  // `left` counts the pieces that nobody has begun, and says of which job: who takes one has to be first to change the
  // number, and the job stays as it is until all of its pieces have ended.
  struct alignas(64) Share {
    std::atomic<uint64_t> left{0};  ///< 2^32 times the job's number, plus the pieces
    Job job;
  };
  struct alignas(64) Worker {
    SignalCounter posted;                           ///< jobs in which it takes part
    std::atomic<std::chrono::nanoseconds> delay{};  ///< its run_delay(), not older than a window
  };

  using Clock = std::chrono::steady_clock;

  void run(const Job& job);
  void share(const Job& job, size_t n_called);
  void adapt_limit(Clock::time_point now);
  void work(size_t index);
  void stop();
  size_t do_pieces(size_t first, size_t n_shares);
  void do_piece(const Job& job, size_t piece);

  std::unique_ptr<Share[]> shares_;
  std::unique_ptr<Worker[]> workers_;
  uint32_t n_jobs_ = 0;
  Sharing sharing_;
  ThreadLimit limit_;     ///< the threads that are called, the caller's among them
  SharingTrials trials_;  ///< which short loops are shared
  // Of the window in which it counts how long threads wait for a core:
  Clock::time_point window_begin_;
  Clock::time_point early_look_;  ///< at the window so far
  bool waited_ = false;           ///< for a piece, for longer than the caller spins
  std::thread::id window_caller_;
  std::chrono::nanoseconds delay_before_{};
  std::atomic<bool> stops_{false};
  std::atomic<size_t> n_shares_{0};  ///< of the job, for who looks for work; a wrong number would find less
  // Pieces that have not ended, twice, plus 1 while the caller sleeps.
  alignas(64) std::atomic<uint32_t> unfinished_{0};
  std::mutex error_mutex_;
  std::exception_ptr error_;          ///< of the first piece that failed,
  size_t error_piece_ = 0;            ///< which is this
  std::vector<std::thread> threads_;  ///< one for each worker
};

/// The number of cores that this process may run on.
[[nodiscard]] size_t default_threads();

}  // namespace folio::core
