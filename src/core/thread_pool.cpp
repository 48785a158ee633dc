#include "core/thread_pool.h"

#include <sched.h>

#include <algorithm>

namespace folio::core {
namespace {

// About 20 µs: longer than the gap between two operations of a forward pass, short enough to cost an idle user nothing.
constexpr int kSpins = 4000;

inline void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

size_t default_threads() {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof(set), &set) == 0) return static_cast<size_t>(std::max(1, CPU_COUNT(&set)));
  return std::max(1U, std::thread::hardware_concurrency());
}

ThreadPool::ThreadPool(size_t n_threads) {
  if (n_threads == 0) n_threads = default_threads();
  for (size_t i = 1; i < n_threads; ++i) workers_.emplace_back([this, i] { work(i); });
}

ThreadPool::~ThreadPool() {
  stopping_ = true;
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::do_share(const Job& job, size_t index) const {
  const size_t n_grains = (job.count + job.grain - 1) / job.grain;
  const size_t begin = n_grains * index / size() * job.grain;
  const size_t end = std::min(job.count, n_grains * (index + 1) / size() * job.grain);
  if (begin < end) job.call(job.context, begin, end);
}

void ThreadPool::run(size_t count, size_t grain, Call call, void* context) {
  job_ = {.count = count, .grain = grain, .call = call, .context = context};
  pending_.store(static_cast<uint32_t>(workers_.size()), std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  do_share(job_, 0);
  for (int spins = 0; pending_.load(std::memory_order_acquire) != 0; ++spins) {
    if (spins < kSpins) {
      pause_cpu();
    } else {
      std::this_thread::yield();
    }
  }
}

void ThreadPool::work(size_t index) {
  uint32_t seen = 0;
  while (true) {
    for (int spins = 0; spins < kSpins && generation_.load(std::memory_order_acquire) == seen; ++spins) pause_cpu();
    generation_.wait(seen, std::memory_order_acquire);
    seen = generation_.load(std::memory_order_acquire);
    if (stopping_) return;
    do_share(job_, index);
    pending_.fetch_sub(1, std::memory_order_release);
  }
}

}  // namespace folio::core
