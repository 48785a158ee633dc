#include "core/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <span>
#include <system_error>

#include "core/error.h"

namespace folio::core {
namespace {

// A waiting thread spins, then sleeps. The caller spins for longer than the threads' shares usually differ. After that
// it may occupy the core that its worker waits for; if it sleeps, the worker can run. A worker spins for longer than
// the gap between two operations of a forward pass or the sampling of a token.
constexpr auto kCallerSpins = std::chrono::microseconds(50);
constexpr auto kWorkerSpins = std::chrono::microseconds(200);

inline void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Moves the calling thread to the `index`-th permitted core after `from`, without pinning it there. A new thread often
// starts on its creator's core, and the scheduler takes many milliseconds to separate two spinning threads.
void step_aside(size_t index, int from) {
  cpu_set_t allowed;
  if (::sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return;
  int cpu = from;
  for (size_t steps = index % static_cast<size_t>(CPU_COUNT(&allowed)); steps > 0; --steps) {
    do cpu = (cpu + 1) % CPU_SETSIZE;
    while (!CPU_ISSET(cpu, &allowed));
  }
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  if (::sched_setaffinity(0, sizeof(one), &one) == 0) ::sched_setaffinity(0, sizeof(allowed), &allowed);
}

}  // namespace

size_t default_threads() {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof(set), &set) == 0) return static_cast<size_t>(std::max(1, CPU_COUNT(&set)));
  return std::max(1U, std::thread::hardware_concurrency());
}

void SignalCounter::raise() {
  const uint32_t now = state_.load(std::memory_order_relaxed);
  // One more, and awake. The exchange and await()'s compare_exchange change the same number, so one of them sees the
  // other: either the waiting thread is woken here, or it does not fall asleep. The exchange has to be seq_cst:
  // libstdc++'s notify_one first looks whether any thread waits, and may not do so before the number has changed.
  if (state_.exchange((now | 1U) + 1, std::memory_order_seq_cst) % 2 == 1) state_.notify_one();
}

void SignalCounter::await(uint32_t count, std::chrono::microseconds spins) {
  const uint32_t raised = count * 2;
  const auto start = std::chrono::steady_clock::now();
  uint32_t seen;
  do {
    for (int i = 0; i < 32; ++i) {
      seen = state_.load(std::memory_order_acquire);
      if (seen == raised) return;
      pause_cpu();
    }
  } while (std::chrono::steady_clock::now() - start < spins);
  // Only this thread sets the lowest bit, and only raise() clears it.
  while (seen != raised) {
    if (state_.compare_exchange_strong(seen, seen | 1U, std::memory_order_seq_cst, std::memory_order_acquire)) {
      state_.wait(seen | 1U, std::memory_order_acquire);
      seen = state_.load(std::memory_order_acquire);
    }
  }
}

ThreadPool::ThreadPool(size_t n_threads) {
  if (n_threads == 0) n_threads = default_threads();
  workers_ = std::make_unique<Worker[]>(n_threads - 1);
  threads_.reserve(n_threads - 1);
  const int here = std::max(0, ::sched_getcpu());
  for (size_t i = 1; i < n_threads; ++i) {
    try {
      threads_.emplace_back([this, i, here] {
        step_aside(i, here);
        work(workers_[i - 1], i);
      });
    } catch (const std::system_error& error) {
      stop();
      fail("thread {} of {} cannot be started: {}; use fewer --threads", i + 1, n_threads, error.code().message());
    }
  }
}

ThreadPool::~ThreadPool() { stop(); }

void ThreadPool::stop() {
  for (size_t i = 0; i < threads_.size(); ++i) {
    workers_[i].job = {};
    workers_[i].posted.raise();
  }
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::do_share(const Job& job, size_t index) {
  const size_t n_grains = (job.count + job.grain - 1) / job.grain;
  const size_t begin = n_grains * index / job.shares * job.grain;
  const size_t end = std::min(job.count, n_grains * (index + 1) / job.shares * job.grain);
  job.call(job.context, begin, end);
}

void ThreadPool::run(const Job& job) {
  const std::span<Worker> workers(workers_.get(), job.shares - 1);
  for (Worker& worker : workers) {
    worker.job = job;
    worker.posted.raise();
  }
  std::exception_ptr first;
  try {
    do_share(job, 0);
  } catch (...) {
    first = std::current_exception();
  }
  for (Worker& worker : workers) {
    worker.finished.await(worker.posted.count(), kCallerSpins);
    if (!worker.error) continue;
    if (!first) first = worker.error;
    worker.error = nullptr;
  }
  if (first) std::rethrow_exception(first);
}

void ThreadPool::work(Worker& worker, size_t index) {
  for (uint32_t n_jobs = 1;; ++n_jobs) {
    worker.posted.await(n_jobs, kWorkerSpins);
    if (worker.job.call == nullptr) return;
    try {
      do_share(worker.job, index);
    } catch (...) {
      worker.error = std::current_exception();
    }
    worker.finished.raise();
  }
}

}  // namespace folio::core
