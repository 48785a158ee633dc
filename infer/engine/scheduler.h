// Who runs next, as in vLLM's V1 (Kwon et al. 2023): a step has a budget of rows. Each request that runs gets its next
// rows, the oldest first; what is left goes to those that wait, in the order in which they came. When the blocks of the
// cache run out, the youngest is preempted and computed again later. So those that run are always the oldest, nobody
// waits for ever behind younger ones, and the oldest always goes on. Knows no model:
// tests/infer/engine/scheduler_test.cpp.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "infer/cache/block_manager.h"

namespace folio::infer {

/// Of requests, in the order in which they come: a later one has a larger id.
using RequestId = int64_t;

struct SchedulerLimits {
  size_t max_rows = 4096;      ///< of a step, if the machine allows so many
  size_t max_sequences = 256;  ///< that run
  size_t max_drafts = 15;      ///< rows of a step that may turn out to be wrong
};

/// What a scheduler keeps of a request, whose class derives from this and has:
///   std::span<const int32_t> tokens() const   whose keys and values its sequence has to hold
///   size_t shareable() const                  so many of the first need not be computed, if they are cached; not all
///   int64_t max_positions() const             the most positions that its sequence may come to hold
///   size_t n_drafts() const                   rows behind those that it would try if nothing else needs them
///   bool alone() const                        whether no other takes part in its steps
class ScheduledJob {
 public:
  explicit ScheduledJob(RequestId id) : id_(id) {}

  [[nodiscard]] RequestId id() const { return id_; }
  /// Where its keys and values are, while it runs.
  [[nodiscard]] SequenceId sequence() const { return sequence_; }
  [[nodiscard]] bool runs() const { return sequence_ >= 0; }
  /// How many of its tokens it did not have to compute, when it last started.
  [[nodiscard]] int64_t n_cached() const { return n_cached_; }
  /// Its first shareable() tokens are those of an older job: while that one runs, they are computed once, for both.
  void share_with(RequestId older) { older_ = older; }

 private:
  template <typename Job>
  friend class Scheduler;
  RequestId id_;
  SequenceId sequence_ = -1;
  int64_t n_cached_ = 0;
  RequestId older_ = -1;
};

/// Of jobs of one class; see ScheduledJob.
template <typename Job>
class Scheduler {
 public:
  /// What happened in a plan.
  struct Trace {
    struct Share {
      Job* job;
      size_t n_rows;
    };
    std::vector<Share> shares{};
    std::vector<Job*> started{};
    std::vector<Job*> preempted{};
    int64_t free_blocks = 0;  ///< before the plan

    /// On one line: "9 blocks free; b starts, 96 cached; a 1, b 4 rows".
    [[nodiscard]] std::string text(const std::function<std::string(const Job&)>& name) const;
  };

  /// The cache has to outlive the scheduler, and nobody else may take its blocks while a job runs. Throws core::Error
  /// if a limit is 0.
  Scheduler(BlockManager& cache, const SchedulerLimits& limits) : cache_(cache), limits_(limits) {
    core::require(limits.max_rows > 0 && limits.max_sequences > 0, "a step of {} rows and {} sequences runs nothing",
                  limits.max_rows, limits.max_sequences);
  }

  /// The job, whose id is the largest so far, waits from now on. Throws core::Error if the cache can never hold it.
  void add(Job& job);
  /// Gives its blocks back, if it runs. Its full blocks stay in the cache for a while.
  void remove(Job& job);

  /// The rows of the next step. Jobs start, and are preempted. `append`(job, most) appends at most `most` of the job's
  /// next rows to the step, and says how many; it is asked for at least one.
  template <typename Append>
  const Trace& plan(const Append& append);
  /// Drafts that each job may try in the next plan.
  [[nodiscard]] size_t n_drafts_each() const { return limits_.max_drafts / std::max<size_t>(n_running_, 1); }
  /// Whether these jobs can have a row more each, and nobody could start instead.
  [[nodiscard]] bool can_go_on(std::span<Job* const> jobs) const;

  [[nodiscard]] std::span<Job* const> running() const { return std::span(jobs_).first(n_running_); }
  [[nodiscard]] std::span<Job* const> waiting() const { return std::span(jobs_).subspan(n_running_); }

 private:
  [[nodiscard]] auto place_of(RequestId id) const {
    return std::ranges::lower_bound(jobs_, id, {}, [](const Job* job) { return job->id(); });
  }
  [[nodiscard]] int64_t fresh(const Job& job) const;
  [[nodiscard]] int64_t drafts(const Job& job, int64_t most, int64_t free) const;
  [[nodiscard]] bool next_fits(int64_t free) const;
  [[nodiscard]] const Job* forked_from(const Job& job) const;
  [[nodiscard]] int64_t copies_by_fork(const Job& job) const;
  void start_next();
  void preempt_youngest();

  BlockManager& cache_;
  SchedulerLimits limits_;
  std::vector<Job*> jobs_;  ///< by id: first those that run, then those that wait
  size_t n_running_ = 0;
  Trace trace_;
};

template <typename Job>
void Scheduler<Job>::add(Job& job) {
  const int64_t needed = blocks_for(job.max_positions());
  core::require(needed <= cache_.n_blocks(),
                "{} positions need {} blocks of the KV cache, which has {}; take fewer tokens or a larger cache",
                job.max_positions(), needed, cache_.n_blocks());
  jobs_.push_back(&job);
}

template <typename Job>
void Scheduler<Job>::remove(Job& job) {
  const auto found = place_of(job.id());
  if (found == jobs_.end() || *found != &job) return;
  if (job.runs()) {
    cache_.release(std::exchange(job.sequence_, -1));
    --n_running_;
  }
  jobs_.erase(found);
}

template <typename Job>
template <typename Append>
const typename Scheduler<Job>::Trace& Scheduler<Job>::plan(const Append& append) {
  trace_ = {.free_blocks = cache_.free_blocks()};
  int64_t rows = static_cast<int64_t>(limits_.max_rows);
  int64_t free = trace_.free_blocks;
  const auto drafts_each = static_cast<int64_t>(n_drafts_each());
  bool open = true;  // younger ones may take part
  const auto joins = [&](const Job& job) { return !job.alone() || trace_.shares.empty(); };
  const auto rows_of = [&](const Job& job) { return std::min(rows, fresh(job)); };
  const auto give = [&](Job& job) {
    int64_t most = rows_of(job);
    if (most == 0) return;
    if (most == fresh(job)) most += drafts(job, std::min(rows - most, drafts_each), free);
    free -= cache_.blocks_needed(job.sequence(), most);
    const size_t n = append(job, static_cast<size_t>(most));
    if (n > 0) trace_.shares.push_back({.job = &job, .n_rows = n});
    rows -= static_cast<int64_t>(n);
    open = n > 0 && !job.alone();
  };
  for (size_t i = 0; open && rows > 0 && i < n_running_; ++i) {
    Job& job = *jobs_[i];
    open = joins(job);
    while (open && cache_.blocks_needed(job.sequence(), rows_of(job)) > free) {
      const int64_t before = cache_.free_blocks();
      preempt_youngest();
      free += cache_.free_blocks() - before;
      open = job.runs();
    }
    if (open) give(job);
  }
  while (open && rows > 0 && trace_.preempted.empty() && next_fits(free) && joins(*jobs_[n_running_])) {
    const int64_t before = cache_.free_blocks();
    free -= copies_by_fork(*jobs_[n_running_]);
    start_next();
    free -= before - cache_.free_blocks();  // cached blocks that nobody held
    give(*jobs_[n_running_ - 1]);
  }
  return trace_;
}

template <typename Job>
bool Scheduler<Job>::can_go_on(std::span<Job* const> jobs) const {
  int64_t free = cache_.free_blocks();
  for (const Job* job : jobs) free -= cache_.blocks_needed(job->sequence(), 1);
  return free >= 0 && !next_fits(free);
}

template <typename Job>
int64_t Scheduler<Job>::fresh(const Job& job) const {
  const auto all = static_cast<int64_t>(job.tokens().size());
  return std::max<int64_t>(0, all - cache_.length(job.sequence()));
}

// Drafts that it tries: none if they would take a block that is not free.
template <typename Job>
int64_t Scheduler<Job>::drafts(const Job& job, int64_t most, int64_t free) const {
  const int64_t n = std::min(most, static_cast<int64_t>(job.n_drafts()));
  return cache_.blocks_needed(job.sequence(), fresh(job) + n) <= free ? n : 0;
}

// All of its tokens and the next one, so that it is not preempted again before it has said anything.
template <typename Job>
bool Scheduler<Job>::next_fits(int64_t free) const {
  if (n_running_ == jobs_.size() || n_running_ >= limits_.max_sequences) return false;
  const Job& job = *jobs_[n_running_];
  const int64_t all = std::min(static_cast<int64_t>(job.tokens().size()) + 1, job.max_positions());
  const auto shareable = static_cast<int64_t>(job.shareable());
  if (const Job* older = forked_from(job)) {
    const bool computed = cache_.length(older->sequence()) >= shareable;
    return computed && blocks_for(all) - shareable / kBlockPositions + copies_by_fork(job) <= free;
  }
  const auto prefix = cache_.find_prefix(job.tokens().first(job.shareable()));
  return blocks_for(all) - blocks_for(prefix.length) + prefix.free_blocks <= free;
}

template <typename Job>
const Job* Scheduler<Job>::forked_from(const Job& job) const {
  const auto older = place_of(job.older_);
  return older != jobs_.end() && (*older)->id() == job.older_ && (*older)->runs() ? *older : nullptr;
}

// Where both go on in the middle of a block, the older one copies it, too, perhaps in the same step.
template <typename Job>
int64_t Scheduler<Job>::copies_by_fork(const Job& job) const {
  return forked_from(job) != nullptr && static_cast<int64_t>(job.shareable()) % kBlockPositions > 0 ? 1 : 0;
}

template <typename Job>
void Scheduler<Job>::start_next() {
  Job& job = *jobs_[n_running_];
  if (const Job* older = forked_from(job)) {
    job.sequence_ = cache_.fork(older->sequence());
    cache_.truncate(job.sequence_, static_cast<int64_t>(job.shareable()));
    job.n_cached_ = cache_.length(job.sequence_);
  } else {
    job.sequence_ = cache_.add_sequence();
    job.n_cached_ = cache_.share_prefix(job.sequence_, job.tokens().first(job.shareable()));
  }
  ++n_running_;
  trace_.started.push_back(&job);
}

template <typename Job>
void Scheduler<Job>::preempt_youngest() {
  Job& job = *jobs_[--n_running_];
  cache_.release(std::exchange(job.sequence_, -1));
  trace_.preempted.push_back(&job);
}

template <typename Job>
std::string Scheduler<Job>::Trace::text(const std::function<std::string(const Job&)>& name) const {
  std::string line = fmt::format("{} block{} free", free_blocks, free_blocks == 1 ? "" : "s");
  for (const Job* job : preempted) line += fmt::format("; {} is preempted", name(*job));
  for (const Job* job : started) {
    line += fmt::format("; {} starts", name(*job));
    if (job->n_cached() > 0) line += fmt::format(", {} cached", job->n_cached());
  }
  for (const Share& share : shares) {
    line += fmt::format("{} {} {}", &share == &shares.front() ? ";" : ",", name(*share.job), share.n_rows);
  }
  return shares.empty() ? line : line + (shares.size() == 1 && shares[0].n_rows == 1 ? " row" : " rows");
}

}  // namespace folio::infer
