#include "core/thread_pool.h"

#include <sched.h>

#include <system_error>

#include "core/error.h"

namespace folio::core {
namespace {

// A waiting thread spins, then sleeps. The caller spins for longer than one piece of a loop usually takes, but not much
// longer, because it may occupy a core that a worker needs. A worker spins for longer than the gap between two
// operations of a forward pass, and longer than it takes to sample a token.
constexpr auto kCallerSpins = std::chrono::microseconds(50);
constexpr auto kWorkerSpins = std::chrono::microseconds(200);

// Waiting for cores is measured in windows that span several scheduling periods of a few milliseconds each.
// adapt_limit() ends a window early if threads wait so long that other programs must be using the cores.
constexpr auto kWindow = std::chrono::milliseconds(100);
constexpr auto kEarlyLook = std::chrono::milliseconds(20);
// After a pause this long, free cores are counted again, since other programs may use more or fewer.
constexpr auto kPause = std::chrono::milliseconds(500);

// Polls done() until it returns true or `time` has passed.
template <typename Done>
void spin(std::chrono::microseconds time, Done&& done) {
  const auto start = std::chrono::steady_clock::now();
  do {
    for (int i = 0; i < 32; ++i) {
      if (done()) return;
      pause_cpu();
    }
  } while (std::chrono::steady_clock::now() - start < time);
}

// Moves the calling thread to the `index`-th permitted core after `from`, without pinning it there. New threads often
// start on their creator's core, and the scheduler takes many milliseconds to separate two spinning threads.
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
  // Adds 1 and clears the sleep bit. This exchange and the compare_exchange in await_change() modify the same variable,
  // so either the waiting thread is woken here or it does not fall asleep. The exchange must be seq_cst: libstdc++'s
  // notify_one checks for waiting threads first, which must not happen before the variable has changed.
  if (state_.exchange((now | 1U) + 1, std::memory_order_seq_cst) % 2 == 1) state_.notify_one();
}

uint32_t SignalCounter::await_change(uint32_t seen, std::chrono::microseconds spins) {
  seen *= 2;
  uint32_t now = seen;
  spin(spins, [&] { return (now = state_.load(std::memory_order_acquire)) != seen; });
  // Sets the lowest bit before sleeping, so that raise() wakes this thread. Only raise() clears the bit.
  while (now == seen) {
    if (state_.compare_exchange_strong(now, seen | 1U, std::memory_order_seq_cst, std::memory_order_acquire)) {
      state_.wait(seen | 1U, std::memory_order_acquire);
      now = state_.load(std::memory_order_acquire);
    }
  }
  return now / 2;
}

ThreadPool::ThreadPool(size_t n_threads, Sharing sharing)
    : sharing_(sharing), limit_(n_threads > 0 ? n_threads : default_threads()) {
  n_threads = limit_.now();
  shares_ = std::make_unique<Share[]>(n_threads);
  workers_ = std::make_unique<Worker[]>(n_threads);
  threads_.reserve(n_threads - 1);
  const int here = std::max(0, ::sched_getcpu());
  for (size_t i = 1; i < n_threads; ++i) {
    try {
      threads_.emplace_back([this, i, here] {
        step_aside(i, here);
        work(i);
      });
    } catch (const std::system_error& error) {
      stop();
      fail("thread {} of {} cannot be started: {}; use fewer --threads", i + 1, n_threads, error.code().message());
    }
  }
}

ThreadPool::~ThreadPool() { stop(); }

void ThreadPool::stop() {
  stops_.store(true, std::memory_order_relaxed);
  for (size_t i = 1; i <= threads_.size(); ++i) workers_[i].posted.raise();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::do_piece(const Job& job, size_t piece) {
  const size_t n_grains = (job.count + job.grain - 1) / job.grain;
  const size_t begin = n_grains * piece / job.n_pieces * job.grain;
  const size_t end = std::min(job.count, n_grains * (piece + 1) / job.n_pieces * job.grain);
  try {
    job.call(job.context, begin, end);
  } catch (...) {
    const std::lock_guard lock(error_mutex_);
    if (!error_ || piece < error_piece_) {
      error_ = std::current_exception();
      error_piece_ = piece;
    }
  }
}

// Runs the remaining pieces of share `first`, then of the following shares. Returns the number of pieces that it ran.
size_t ThreadPool::do_pieces(size_t first, size_t n_shares) {
  size_t n_done = 0;
  for (size_t i = 0; i < n_shares; ++i) {
    const size_t index = (first + i) % n_shares;
    Share& share = shares_[index];
    uint64_t left = share.left.load(std::memory_order_acquire);
    while (static_cast<uint32_t>(left) > 0) {
      if (!share.left.compare_exchange_weak(left, left - 1, std::memory_order_acq_rel, std::memory_order_acquire))
        continue;
      const Job& job = share.job;
      const uint32_t of_share = job.n_pieces / job.n_threads;
      do_piece(job, index * of_share + of_share - static_cast<uint32_t>(left));
      ++n_done;
      left = share.left.load(std::memory_order_acquire);
    }
  }
  return n_done;
}

void ThreadPool::adapt_limit(Clock::time_point now) {
  const auto window = now - window_begin_;
  const bool early = window < kWindow;
  if (early && (!waited_ || now < early_look_)) return;
  early_look_ = now + kEarlyLook;
  waited_ = false;
  std::chrono::nanoseconds delay = run_delay();
  for (size_t i = 1; i <= threads_.size(); ++i) delay += workers_[i].delay.load(std::memory_order_relaxed);
  const auto caller = std::this_thread::get_id();
  const double waiting = std::chrono::duration<double>(delay - delay_before_) / window;
  if (early && (waiting <= ThreadLimit::kMany || caller != window_caller_)) return;
  const auto free = [this] { return free_cores(size()); };
  if (window > kPause) {
    limit_.start(free());
  } else if (caller == window_caller_) {
    limit_.update(waiting, free);
  }
  window_begin_ = now;
  window_caller_ = caller;
  delay_before_ = delay;
}

// Runs a long loop on all threads, since a thread that waits for a core delays it by only one of many pieces. Runs
// other loops on as many threads as limit_ allows, or on one thread if trials_ measured that to be faster.
void ThreadPool::run(const Job& job) {
  if (sharing_ == Sharing::Always || job.worth >= kLong) return share(job, size());
  const auto start = Clock::now();
  adapt_limit(start);
  if (limit_.now() == 1) return job.call(job.context, 0, job.count);
  trials_.shares(job.worth) ? share(job, limit_.now()) : job.call(job.context, 0, job.count);
  trials_.record(job.worth, trials_.times(job.worth) ? Clock::now() - start : Clock::duration{});
}

void ThreadPool::share(const Job& job, size_t n_called) {
  const uint64_t number = uint64_t{++n_jobs_} << 32U;
  const uint32_t of_share = job.n_pieces / job.n_threads;
  unfinished_.store(job.n_pieces * 2, std::memory_order_relaxed);
  n_shares_.store(job.n_threads, std::memory_order_relaxed);
  for (size_t i = job.n_threads; i-- > 0;) {
    shares_[i].job = job;
    shares_[i].left.store(number + of_share, std::memory_order_release);
    if (i > 0 && i < n_called) workers_[i].posted.raise();
  }
  const auto done = static_cast<uint32_t>(do_pieces(0, job.n_threads));
  if (unfinished_.fetch_sub(done * 2, std::memory_order_acq_rel) != done * 2) {
    uint32_t now = 0;
    spin(kCallerSpins, [&] { return (now = unfinished_.load(std::memory_order_acquire)) == 0; });
    if (now > 0) {
      waited_ = true;
      now = unfinished_.fetch_or(1, std::memory_order_acq_rel) | 1U;
      while (now > 1) {
        unfinished_.wait(now, std::memory_order_acquire);
        now = unfinished_.load(std::memory_order_acquire);
      }
    }
  }
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void ThreadPool::work(size_t index) {
  auto measured = std::chrono::steady_clock::now();
  for (uint32_t n_posted = 0;;) {
    n_posted = workers_[index].posted.await_change(n_posted, kWorkerSpins);
    if (const auto now = std::chrono::steady_clock::now(); now - measured > kEarlyLook / 4) {
      measured = now;
      workers_[index].delay.store(run_delay(), std::memory_order_relaxed);
    }
    if (stops_.load(std::memory_order_relaxed)) return;
    // Even if the job has ended meanwhile, this is safe: do_pieces() runs only pieces that it has claimed from a share,
    // and a job does not change until all of its claimed pieces have ended.
    const auto done = static_cast<uint32_t>(do_pieces(index, n_shares_.load(std::memory_order_relaxed)));
    if (done > 0 && unfinished_.fetch_sub(done * 2, std::memory_order_acq_rel) == done * 2 + 1)
      unfinished_.notify_one();
  }
}

}  // namespace folio::core
