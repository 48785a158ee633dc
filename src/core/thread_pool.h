// A pool of threads for short parallel loops. Workers spin for a moment between loops, then sleep.
// Each thread's share depends only on the sizes, never on timing.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace folio::core {

/// Counts the signals of one thread to another, which may wait for them. A signal costs a system call only if the other
/// thread sleeps.
class SignalCounter {
 public:
  /// One more. Called by one thread only.
  void raise();

  /// How often raise() was called; for the thread that calls it.
  [[nodiscard]] uint32_t count() const { return state_.load(std::memory_order_relaxed) / 2; }

  /// Returns when raise() was called `count` times (modulo 2^31). Called by one thread only; spins for `spins`, then
  /// sleeps.
  void await(uint32_t count, std::chrono::microseconds spins);

 private:
  std::atomic<uint32_t> state_{0};  ///< twice the count, plus 1 while the waiting thread sleeps
};

class ThreadPool {
 public:
  /// `n_threads` in all, including the caller's; 0 means default_threads(). Throws Error if one cannot be started.
  explicit ThreadPool(size_t n_threads = 0);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  [[nodiscard]] size_t size() const { return threads_.size() + 1; }

  /// Calls body(begin, end) on disjoint ranges that cover [0, count), at most `shares` of them and at most one for each
  /// thread, and returns when all have ended. Range borders are multiples of `grain` (at least 1). If bodies throw,
  /// throws the exception of the first range. One caller at a time; `body` must not call the pool.
  template <typename Body>
  void parallel_for(size_t count, size_t grain, size_t shares, Body&& body) {
    shares = std::min({shares, size(), (count + grain - 1) / grain});
    if (shares <= 1) {
      if (count > 0) body(size_t{0}, count);
      return;
    }
    using Plain = std::remove_reference_t<Body>;
    run({.count = count,
         .grain = grain,
         .shares = shares,
         .call = [](void* context, size_t begin, size_t end) { (*static_cast<Plain*>(context))(begin, end); },
         .context = const_cast<void*>(static_cast<const void*>(&body))});
  }
  template <typename Body>
  void parallel_for(size_t count, size_t grain, Body&& body) {
    parallel_for(count, grain, size(), std::forward<Body>(body));
  }

 private:
  using Call = void (*)(void* context, size_t begin, size_t end);
  struct Job {
    size_t count = 0;
    size_t grain = 1;
    size_t shares = 1;
    Call call = nullptr;  ///< null: end the thread
    void* context = nullptr;
  };

  struct Worker {
    // Written by the caller: one cache line, so that the worker receives all of it at once.
    alignas(64) Job job;
    SignalCounter posted;
    // Written by the worker, in a line of its own.
    alignas(64) SignalCounter finished;
    std::exception_ptr error;
  };

  void run(const Job& job);
  void work(Worker& worker, size_t index);
  void stop();
  static void do_share(const Job& job, size_t index);

  std::unique_ptr<Worker[]> workers_;
  std::vector<std::thread> threads_;  ///< one for each worker
};

/// The number of cores that this process may run on.
[[nodiscard]] size_t default_threads();

}  // namespace folio::core
