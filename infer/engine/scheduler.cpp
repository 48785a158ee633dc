#include "infer/engine/scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/error.h"

namespace folio::infer {

Scheduler::Scheduler(BlockManager& cache, const Limits& limits) : cache_(cache), limits_(limits) {
  core::require(limits.max_rows > 0 && limits.max_sequences > 0, "a step of {} rows and {} sequences runs nothing",
                limits.max_rows, limits.max_sequences);
}

void Scheduler::add(Job& job) {
  const int64_t needed = blocks_for(job.max_positions());
  core::require(needed <= cache_.n_blocks(),
                "{} positions need {} blocks of the KV cache, which has {}; take fewer tokens or a larger cache",
                job.max_positions(), needed, cache_.n_blocks());
  jobs_.push_back(&job);
}

void Scheduler::remove(Job& job) {
  const auto found = std::find(jobs_.begin(), jobs_.end(), &job);
  if (found == jobs_.end()) return;
  for (Job* other : jobs_) {
    if (other->older_ == &job) other->older_ = nullptr;
  }
  if (job.runs()) {
    cache_.release(std::exchange(job.sequence_, -1));
    --n_running_;
  }
  jobs_.erase(found);
}

const Scheduler::Trace& Scheduler::plan(const Append& append) {
  trace_ = {.free_blocks = cache_.free_blocks()};
  int64_t rows = static_cast<int64_t>(limits_.max_rows);
  int64_t free = trace_.free_blocks;
  const auto ahead_each = static_cast<int64_t>(n_ahead_each());
  bool open = true;  // younger ones may take part
  const auto joins = [&](const Job& job) { return !job.alone() || trace_.parts.empty(); };
  const auto rows_of = [&](const Job& job) { return std::min(rows, fresh(job)); };
  const auto give = [&](Job& job) {
    int64_t most = rows_of(job);
    if (most == 0) return;
    if (most == fresh(job)) most += ahead(job, std::min(rows - most, ahead_each), free);
    free -= cache_.blocks_needed(job.sequence(), most);
    const size_t n = append(job, static_cast<size_t>(most));
    if (n > 0) trace_.parts.push_back({.job = &job, .n_rows = n});
    rows -= static_cast<int64_t>(n);
    open = n > 0 && !job.alone();
  };
  for (size_t i = 0; open && rows > 0 && i < n_running_; ++i) {
    Job& job = *jobs_[i];
    open = joins(job);
    while (open && cache_.blocks_needed(job.sequence(), rows_of(job)) > free) {
      const int64_t before = cache_.free_blocks();
      put_back_youngest();
      free += cache_.free_blocks() - before;
      open = job.runs();
    }
    if (open) give(job);
  }
  while (open && rows > 0 && trace_.put_back.empty() && next_fits(free) && joins(*jobs_[n_running_])) {
    const int64_t before = cache_.free_blocks();
    free -= copies_by_fork(*jobs_[n_running_]);
    start_next();
    free -= before - cache_.free_blocks();  // known blocks that nobody held
    give(*jobs_[n_running_ - 1]);
  }
  return trace_;
}

bool Scheduler::can_go_on(std::span<Job* const> jobs) const {
  int64_t free = cache_.free_blocks();
  for (const Job* job : jobs) free -= cache_.blocks_needed(job->sequence(), 1);
  return free >= 0 && !next_fits(free);
}

int64_t Scheduler::fresh(const Job& job) const {
  const auto all = static_cast<int64_t>(job.tokens().size());
  return std::max<int64_t>(0, all - cache_.length(job.sequence()));
}

// Rows that it tries: none if they would take a block that is not free.
int64_t Scheduler::ahead(const Job& job, int64_t most, int64_t free) const {
  const int64_t n = std::min(most, static_cast<int64_t>(job.n_ahead()));
  return cache_.blocks_needed(job.sequence(), fresh(job) + n) <= free ? n : 0;
}

// All of its tokens and the next one, so that it is not put back again before it has said anything.
bool Scheduler::next_fits(int64_t free) const {
  if (n_running_ == jobs_.size() || n_running_ >= limits_.max_sequences) return false;
  const Job& job = *jobs_[n_running_];
  const int64_t all = std::min(static_cast<int64_t>(job.tokens().size()) + 1, job.max_positions());
  const auto shareable = static_cast<int64_t>(job.shareable());
  if (forks(job)) {
    const bool computed = cache_.length(job.older_->sequence()) >= shareable;
    return computed && blocks_for(all) - shareable / kBlockPositions + copies_by_fork(job) <= free;
  }
  const auto prefix = cache_.find_prefix(job.tokens().first(job.shareable()));
  return blocks_for(all) - blocks_for(prefix.length) + prefix.free_blocks <= free;
}

bool Scheduler::forks(const Job& job) { return job.older_ != nullptr && job.older_->runs(); }

// Where both go on in the middle of a block, the older one copies it, too, perhaps in the same step.
int64_t Scheduler::copies_by_fork(const Job& job) {
  return forks(job) && static_cast<int64_t>(job.shareable()) % kBlockPositions > 0 ? 1 : 0;
}

void Scheduler::start_next() {
  Job& job = *jobs_[n_running_];
  if (forks(job)) {
    job.sequence_ = cache_.fork(job.older_->sequence());
    cache_.truncate(job.sequence_, static_cast<int64_t>(job.shareable()));
    job.n_shared_ = cache_.length(job.sequence_);
  } else {
    job.sequence_ = cache_.add_sequence();
    job.n_shared_ = cache_.share_prefix(job.sequence_, job.tokens().first(job.shareable()));
  }
  ++n_running_;
  trace_.started.push_back(&job);
}

void Scheduler::put_back_youngest() {
  Job& job = *jobs_[--n_running_];
  cache_.release(std::exchange(job.sequence_, -1));
  trace_.put_back.push_back(&job);
}

std::string Scheduler::Trace::text(const std::function<std::string(const Job&)>& name) const {
  std::string line = fmt::format("{} block{} free", free_blocks, free_blocks == 1 ? "" : "s");
  for (const Job* job : put_back) line += fmt::format("; {} is put back", name(*job));
  for (const Job* job : started) {
    line += fmt::format("; {} starts", name(*job));
    if (job->n_shared() > 0) line += fmt::format(", knows {}", job->n_shared());
  }
  for (const Part& part : parts) {
    line += fmt::format("{} {} {}", &part == &parts.front() ? ";" : ",", name(*part.job), part.n_rows);
  }
  return parts.empty() ? line : line + (parts.size() == 1 && parts[0].n_rows == 1 ? " row" : " rows");
}

}  // namespace folio::infer
