// A pool of threads for short parallel loops. Workers spin for a moment between loops, then sleep.
// Work is cut by index, never by time, so what a thread computes does not depend on the others.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace folio::core {

class ThreadPool {
 public:
  /// `n_threads` in all, the caller's included; 0 means default_threads().
  explicit ThreadPool(size_t n_threads = 0);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  [[nodiscard]] size_t size() const { return workers_.size() + 1; }

  /// Calls body(begin, end) on disjoint ranges that cover [0, count), at most `shares` of them and at most one for each
  /// thread, and returns when all have. Range borders are multiples of `grain` (at least 1). One caller at a time;
  /// `body` must not throw and must not call the pool.
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
    Call call = nullptr;
    void* context = nullptr;
  };

  // What the caller hands out: one cache line, so that a worker gets all of it at once.
  struct alignas(64) Posted {
    Job job;
    std::atomic<uint32_t> generation{0};  ///< raised for each job
  };
  // What a worker hands back, in a line of its own.
  struct alignas(64) Finished {
    std::atomic<uint32_t> generation{0};  ///< of the last job that it has done
  };

  void run(const Job& job);
  void work(size_t index);
  void do_share(const Job& job, size_t index) const;

  Posted posted_;
  std::unique_ptr<Finished[]> finished_;  ///< one for each worker
  std::atomic<bool> stopping_{false};
  std::vector<std::thread> workers_;
};

/// The cores that this process may run on.
[[nodiscard]] size_t default_threads();

}  // namespace folio::core
