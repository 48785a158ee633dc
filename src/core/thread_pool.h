// A thread pool for short parallel loops. A loop is cut into pieces that depend only on its arguments and the number of
// threads in the pool. Each thread begins with its own share of the pieces and then steals pieces from others, so a
// descheduled thread delays the loop by at most one piece. While other programs use the cores, fewer threads take part
// (thread_limit.h). Short loops are shared only if that was measured to be faster (sharing_trials.h). Idle workers spin
// briefly, then sleep.
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

/// Tells the processor that the calling thread polls a variable.
inline void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Counts signals from one thread to another, which may wait for them. A signal costs a system call only if the other
/// thread sleeps.
class SignalCounter {
 public:
  /// Adds 1 to the count. Called by one thread only.
  void raise();

  /// Waits until the count differs from `seen`, then returns the count. Spins for `spins` before it sleeps. Called by
  /// one thread only.
  uint32_t await_change(uint32_t seen, std::chrono::microseconds spins);

 private:
  std::atomic<uint32_t> state_{0};  ///< twice the count, plus 1 while the waiting thread sleeps
};

class ThreadPool {
 public:
  enum class Sharing : uint8_t { WherePays, Always };

  /// Creates a pool of `n_threads` threads including the caller; 0: one per core that this process may use. With
  /// Sharing::Always all threads take part in every loop, with WherePays only where it is faster. Throws Error if a
  /// thread cannot be started.
  explicit ThreadPool(size_t n_threads = 0, Sharing sharing = Sharing::WherePays);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  [[nodiscard]] size_t size() const { return threads_.size() + 1; }

  /// Calls body(begin, end) on disjoint ranges that cover [0, count), and returns when all calls have ended. `worth` is
  /// the estimated time on one thread in microseconds; short loops use fewer threads. Ranges begin at multiples of
  /// `grain` (at least 1) and depend only on these arguments and size(), except that a loop on one thread has a single
  /// range. Any thread may run any range. If bodies throw, rethrows the exception of the first such range. Only one
  /// thread may use the pool at a time, and `body` must not use it.
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
  /// Calls body(begin, end) on ranges of [0, count), for a loop that takes milliseconds or more on one thread.
  template <typename Body>
  void parallel_for(size_t count, size_t grain, Body&& body) {
    parallel_for(count, grain, kLong, std::forward<Body>(body));
  }

 private:
  static constexpr size_t kPieceWorth = 4;   ///< least microseconds if a thread has several; stealing costs far less
  static constexpr size_t kMostPieces = 48;  ///< per thread; more gain little, as a loop's end waits for one at most
  static constexpr size_t kLong = 1000000;   ///< microseconds assumed for loops without an estimate

  using Call = void (*)(void* context, size_t begin, size_t end);
  struct Job {
    size_t count = 0;
    size_t grain = 1;
    uint32_t n_threads = 1;
    uint32_t n_pieces = 1;  ///< a multiple of n_threads: each Share begins with n_pieces / n_threads neighboring pieces
    size_t worth = 0;       ///< estimated microseconds on one thread
    Call call = nullptr;
    void* context = nullptr;
  };

  // The pieces of a job with which one thread begins; the caller has the first Share. A Share fits in a cache line, so
  // a worker loads it with one cache miss. `left` identifies the job and counts the share's pieces that have not begun.
  // A thread claims a piece by changing `left` atomically. The job does not change until all of its pieces have ended.
  struct alignas(64) Share {
    std::atomic<uint64_t> left{0};  ///< 2^32 * number of the job + number of the share's pieces that have not begun
    Job job;
  };
  struct alignas(64) Worker {
    SignalCounter posted;                           ///< counts the jobs in which the thread should take part
    std::atomic<std::chrono::nanoseconds> delay{};  ///< run_delay() of the thread, updated before some of its jobs
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
  ThreadLimit limit_;     ///< how many threads to wake, including the caller
  SharingTrials trials_;  ///< decides which short loops are shared
  // State of the window that measures how long threads wait for a core:
  Clock::time_point window_begin_;
  Clock::time_point early_look_;  ///< earliest time of the next check within the window
  bool waited_ = false;           ///< true if the caller had to sleep until other threads finished
  std::thread::id window_caller_;
  std::chrono::nanoseconds delay_before_{};
  std::atomic<bool> stops_{false};
  std::atomic<size_t> n_shares_{0};  ///< shares of the current job; a worker with an old value leaves some to others
  // Twice the number of pieces that have not ended, plus 1 while the caller sleeps.
  alignas(64) std::atomic<uint32_t> unfinished_{0};
  std::mutex error_mutex_;
  std::exception_ptr error_;  ///< exception of the failed piece with the lowest index
  size_t error_piece_ = 0;
  std::vector<std::thread> threads_;
};

/// Returns the number of cores that this process may use.
[[nodiscard]] size_t default_threads();

}  // namespace folio::core
