#include "core/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <chrono>

namespace folio::core {
namespace {

// A waiting thread spins, then sleeps. The caller spins longer than threads usually differ in their shares; then it may
// stand on the very core that its worker waits for, and sleeping lets the scheduler part them. A worker spins longer
// than the gap between two operations of a forward pass or the drawing of a token.
constexpr auto kCallerSpins = std::chrono::microseconds(50);
constexpr auto kWorkerSpins = std::chrono::microseconds(200);

inline void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Waits until `value` is no longer `old`; returns the new one. Whoever changes it does so with memory_order_seq_cst:
// libstdc++'s notify first looks whether anyone waits, and after a weaker store the processor may look before the store
// is seen by others. A thread that falls asleep in between is never woken.
uint32_t wait_for_change(const std::atomic<uint32_t>& value, uint32_t old, std::chrono::microseconds spins) {
  const auto start = std::chrono::steady_clock::now();
  do {
    for (int i = 0; i < 32; ++i) {
      if (const uint32_t now = value.load(std::memory_order_acquire); now != old) return now;
      pause_cpu();
    }
  } while (std::chrono::steady_clock::now() - start < spins);
  value.wait(old, std::memory_order_acquire);
  return value.load(std::memory_order_acquire);
}

// Moves the calling thread to the `index`-th core after `from` of those that it may run on, and leaves it free to move.
// A new thread often starts on its maker's core, and it takes the scheduler many milliseconds to part two that spin.
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

ThreadPool::ThreadPool(size_t n_threads) {
  if (n_threads == 0) n_threads = default_threads();
  finished_ = std::make_unique<Finished[]>(n_threads - 1);
  workers_.reserve(n_threads - 1);
  const int here = std::max(0, ::sched_getcpu());
  for (size_t i = 1; i < n_threads; ++i) {
    workers_.emplace_back([this, i, here] {
      step_aside(i, here);
      work(i);
    });
  }
}

ThreadPool::~ThreadPool() {
  stopping_ = true;
  posted_.generation.fetch_add(1, std::memory_order_seq_cst);
  posted_.generation.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::do_share(const Job& job, size_t index) const {
  const size_t n_grains = (job.count + job.grain - 1) / job.grain;
  const size_t begin = n_grains * index / job.shares * job.grain;
  const size_t end = std::min(job.count, n_grains * (index + 1) / job.shares * job.grain);
  if (begin < end) job.call(job.context, begin, end);
}

void ThreadPool::run(const Job& job) {
  posted_.job = job;
  const uint32_t generation = posted_.generation.fetch_add(1, std::memory_order_seq_cst) + 1;
  posted_.generation.notify_all();
  do_share(job, 0);
  for (size_t worker = 0; worker < workers_.size(); ++worker) {
    wait_for_change(finished_[worker].generation, generation - 1, kCallerSpins);
  }
}

void ThreadPool::work(size_t index) {
  std::atomic<uint32_t>& finished = finished_[index - 1].generation;
  for (uint32_t seen = 0;;) {
    seen = wait_for_change(posted_.generation, seen, kWorkerSpins);
    if (stopping_) return;
    if (index < posted_.job.shares) do_share(posted_.job, index);
    finished.store(seen, std::memory_order_seq_cst);
    finished.notify_one();
  }
}

}  // namespace folio::core
