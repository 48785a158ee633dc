// A pool of threads for short parallel loops. Workers spin for a moment between loops, then sleep.
// Work is cut by index, never by time, so what a thread computes does not depend on the others.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <thread>
#include <type_traits>
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

  /// Calls body(begin, end) on disjoint ranges that cover [0, count), one for each thread, and returns when all have.
  /// Range borders are multiples of `grain`. One caller at a time; `body` must not throw and must not call the pool.
  template <typename Body>
  void parallel_for(size_t count, size_t grain, Body&& body) {
    if (workers_.empty() || count <= grain) {
      if (count > 0) body(size_t{0}, count);
      return;
    }
    using Plain = std::remove_reference_t<Body>;
    run(
        count, grain, [](void* context, size_t begin, size_t end) { (*static_cast<Plain*>(context))(begin, end); },
        const_cast<void*>(static_cast<const void*>(&body)));
  }

 private:
  using Call = void (*)(void* context, size_t begin, size_t end);
  struct Job {
    size_t count = 0;
    size_t grain = 1;
    Call call = nullptr;
    void* context = nullptr;
  };

  void run(size_t count, size_t grain, Call call, void* context);
  void work(size_t index);
  void do_share(const Job& job, size_t index) const;

  Job job_;
  std::vector<std::thread> workers_;
  alignas(64) std::atomic<uint32_t> generation_{0};  ///< raised for each job
  alignas(64) std::atomic<uint32_t> pending_{0};     ///< workers that have not finished the job
  std::atomic<bool> stopping_{false};
};

/// The cores that this process may run on.
[[nodiscard]] size_t default_threads();

}  // namespace folio::core
