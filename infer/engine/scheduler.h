// Who runs next, as in vLLM's V1 (Kwon et al. 2023): a step has a budget of rows. Each request that runs gets its next
// rows, the oldest first; what is left goes to those that wait, in the order in which they came. When the blocks of the
// cache run out, the youngest is preempted and computed again later. So those that run are always the oldest, nobody
// waits for ever behind younger ones, and the oldest always goes on. Where several steps are under way, each takes its
// share of the branches. Knows no model: tests/infer/engine/scheduler_test.cpp.
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
  size_t n_steps = 1;          ///< under way at once, each with a part of the branches
};

/// What a scheduler keeps of a branch of a request: one sequence of tokens. Its class derives from this and has:
///   std::span<const int32_t> tokens() const   whose keys and values its sequence has to hold
///   size_t shareable() const                  so many of the first need not be computed, if they are cached; not all
///   int64_t max_positions() const             the most positions that its sequence may come to hold
///   size_t n_together() const                 branches that its request may come to have, which start and are
///                                             preempted as one; 1: each by itself
///   int32_t adapter() const                   that computes its keys and values, or kNoAdapter
///   size_t n_drafts() const                   rows behind those that it would try if nothing else needs them
///   bool alone() const                        whether no other takes part in its steps
class ScheduledBranch {
 public:
  ScheduledBranch(RequestId request, size_t index) : request_(request), index_(index) {}

  [[nodiscard]] RequestId request() const { return request_; }
  /// Among the branches of its request.
  [[nodiscard]] size_t index() const { return index_; }
  /// Where its keys and values are, while it runs.
  [[nodiscard]] SequenceId sequence() const { return sequence_; }
  [[nodiscard]] bool runs() const { return sequence_ >= 0; }
  /// How many of its tokens it did not have to compute, when it last started.
  [[nodiscard]] int64_t n_cached() const { return n_cached_; }

 private:
  template <typename Branch>
  friend class Scheduler;
  RequestId request_;
  size_t index_;
  SequenceId sequence_ = -1;
  int64_t n_cached_ = 0;
};

/// Of branches of one class; see ScheduledBranch.
template <typename Branch>
class Scheduler {
 public:
  /// What happened in a plan.
  struct Trace {
    struct Share {
      Branch* branch;
      size_t n_rows;
    };
    std::vector<Share> shares{};
    std::vector<Branch*> started{};
    std::vector<Branch*> preempted{};
    int64_t free_blocks = 0;  ///< before the plan

    /// On one line: "9 blocks free; b starts, 96 cached; a 1, b 4 rows".
    [[nodiscard]] std::string text(const std::function<std::string(const Branch&)>& name) const;
  };

  /// The cache has to outlive the scheduler, and nobody else may take its blocks while a branch runs. Throws
  /// core::Error if a limit is 0.
  Scheduler(BlockManager& cache, const SchedulerLimits& limits) : cache_(cache), limits_(limits) {
    core::require(limits.max_rows > 0 && limits.max_sequences > 0, "a step of {} rows and {} sequences runs nothing",
                  limits.max_rows, limits.max_sequences);
  }

  /// The branch waits from now on, in the order of ids: after all others if it is new, in its old place if it was
  /// removed to be paused. Throws core::Error if it can never run: the cache can't hold it and those that run together
  /// with it, or they are more than may run.
  void add(Branch& branch);
  /// `child` runs from now on, and shares all blocks of `parent`, which runs and is of the same request. If it ran, its
  /// own blocks are given back.
  void fork(Branch& child, const Branch& parent);
  /// Gives its blocks back, if it runs. Its full blocks stay in the cache for a while.
  void remove(Branch& branch);

  /// The rows of the next step. Branches start, and are preempted. `append`(branch, most) appends at most `most` of the
  /// branch's next rows to the step, and says how many; it is asked for at least one.
  template <typename Append>
  const Trace& plan(const Append& append);
  /// Drafts that each branch may try in the next plan.
  [[nodiscard]] size_t n_drafts_each() const { return limits_.max_drafts / std::max<size_t>(n_running_, 1); }
  /// Whether these branches can have a row more each, and nobody could start instead.
  [[nodiscard]] bool can_go_on(std::span<Branch* const> branches) const;

  [[nodiscard]] std::span<Branch* const> running() const { return std::span(branches_).first(n_running_); }
  [[nodiscard]] std::span<Branch* const> waiting() const { return std::span(branches_).subspan(n_running_); }

 private:
  // Of a branch's first tokens, those that it shares with another of its request, which runs.
  struct Origin {
    const Branch* branch = nullptr;  ///< none: nobody of its request runs, or shares a token with it
    int64_t length = 0;
  };

  // Where the branch is, or would be, in [first, end), which is in order.
  [[nodiscard]] auto place_of(const Branch& branch, size_t first, size_t end) {
    const auto key = [](const Branch* b) { return std::pair(b->request(), b->index()); };
    const auto begin = branches_.begin();
    return std::lower_bound(begin + static_cast<std::ptrdiff_t>(first), begin + static_cast<std::ptrdiff_t>(end),
                            key(&branch), [&](const Branch* b, const auto& k) { return key(b) < k; });
  }
  [[nodiscard]] std::span<Branch* const> running_of(RequestId request) const;
  [[nodiscard]] static bool together(const Branch& a, const Branch& b) {
    return a.n_together() > 1 && a.request() == b.request();
  }
  [[nodiscard]] std::span<Branch* const> unit_at(size_t first, size_t end) const;
  [[nodiscard]] int64_t blocks_needed(std::span<Branch* const> unit, int64_t rows) const;
  [[nodiscard]] int64_t fresh(const Branch& branch) const;
  [[nodiscard]] int64_t drafts(const Branch& branch, int64_t most, int64_t free) const;
  [[nodiscard]] size_t places_taken() const;
  [[nodiscard]] bool next_fits(int64_t free) const;
  [[nodiscard]] static int64_t common(const Branch& branch, const Branch& other);
  [[nodiscard]] Origin origin_of(const Branch& branch) const;
  [[nodiscard]] int64_t copies_by_fork(const Branch& branch) const;
  Branch& start_next();
  void preempt_youngest();

  BlockManager& cache_;
  SchedulerLimits limits_;
  std::vector<Branch*> branches_;  ///< first those that run, then those that wait, each by request and index
  size_t n_running_ = 0;
  Trace trace_;
};

// Branches that run together share the whole blocks of what they begin with. Where two go on from one block, both copy
// it, and it stays until the step's end.
template <typename Branch>
void Scheduler<Branch>::add(Branch& branch) {
  const int64_t positions = branch.max_positions();
  const auto n = static_cast<int64_t>(branch.n_together());
  const int64_t shared = n == 1 ? 0 : std::ssize(branch.tokens()) / kBlockPositions;
  const int64_t needed = shared + n * (blocks_for(positions) - shared) + (n == 1 ? 0 : n);
  const std::string who = n == 1 ? "" : fmt::format("{} beams of ", n);
  core::require(needed <= cache_.n_blocks(),
                "{}{} positions need {} blocks of the KV cache, which has {}; take fewer tokens or a larger cache", who,
                positions, needed, cache_.n_blocks());
  core::require(branch.n_together() <= limits_.max_sequences,
                "{} beams are more than the {} sequences that may run; take fewer", n, limits_.max_sequences);
  branches_.insert(place_of(branch, n_running_, branches_.size()), &branch);
}

template <typename Branch>
void Scheduler<Branch>::fork(Branch& child, const Branch& parent) {
  const SequenceId sequence = cache_.fork(parent.sequence());
  if (child.runs()) {
    cache_.release(child.sequence_);
  } else {
    branches_.insert(place_of(child, 0, n_running_), &child);
    ++n_running_;
  }
  child.sequence_ = sequence;
}

template <typename Branch>
void Scheduler<Branch>::remove(Branch& branch) {
  const size_t first = branch.runs() ? 0 : n_running_;
  const auto found = place_of(branch, first, branch.runs() ? n_running_ : branches_.size());
  if (found == branches_.end() || *found != &branch) return;
  if (branch.runs()) {
    cache_.release(std::exchange(branch.sequence_, -1));
    --n_running_;
  }
  branches_.erase(found);
}

template <typename Branch>
template <typename Append>
const typename Scheduler<Branch>::Trace& Scheduler<Branch>::plan(const Append& append) {
  trace_ = {.free_blocks = cache_.free_blocks()};
  int64_t rows = static_cast<int64_t>(limits_.max_rows);
  int64_t free = trace_.free_blocks;
  const auto drafts_each = static_cast<int64_t>(n_drafts_each());
  bool open = true;  // younger ones may take part
  const auto joins = [&](const Branch& branch) { return !branch.alone() || trace_.shares.empty(); };
  const auto has_room = [&, n = limits_.n_steps](size_t n_branches) {  // for one more of so many
    return open && rows > 0 && trace_.shares.size() < (n_branches + n - 1) / n;
  };
  const auto give = [&](Branch& branch) {
    int64_t most = std::min(rows, fresh(branch));
    if (most == 0) return;
    if (most == fresh(branch)) most += drafts(branch, std::min(rows - most, drafts_each), free);
    free -= cache_.blocks_needed(branch.sequence(), most);
    const size_t n = append(branch, static_cast<size_t>(most));
    if (n > 0) trace_.shares.push_back({.branch = &branch, .n_rows = n});
    rows -= static_cast<int64_t>(n);
    open = n > 0 && !branch.alone();
  };
  const size_t n_ran = n_running_;
  for (size_t i = 0; has_room(n_ran) && i < n_running_;) {
    const auto unit = unit_at(i, n_running_);
    open = joins(*unit.front());
    while (open && blocks_needed(unit, rows) > free) {
      const int64_t before = cache_.free_blocks();
      preempt_youngest();
      free += cache_.free_blocks() - before;
      open = unit.front()->runs();
    }
    for (size_t b = 0; has_room(n_ran) && b < unit.size(); ++b) give(*unit[b]);
    i += unit.size();
  }
  while (has_room(branches_.size()) && trace_.preempted.empty() && next_fits(free) && joins(*branches_[n_running_])) {
    const int64_t before = cache_.free_blocks();
    free -= copies_by_fork(*branches_[n_running_]);
    Branch& next = start_next();
    free -= before - cache_.free_blocks();  // cached blocks that nobody held
    give(next);
  }
  return trace_;
}

template <typename Branch>
bool Scheduler<Branch>::can_go_on(std::span<Branch* const> branches) const {
  int64_t free = cache_.free_blocks();
  for (const Branch* branch : branches) free -= cache_.blocks_needed(branch->sequence(), 1);
  return free >= 0 && !next_fits(free);
}

// The branches before `end` that start and are preempted with the one at `first`.
template <typename Branch>
std::span<Branch* const> Scheduler<Branch>::unit_at(size_t first, size_t end) const {
  size_t n = 1;
  while (first + n < end && together(*branches_[first], *branches_[first + n])) ++n;
  return std::span(branches_).subspan(first, n);
}

// For the next rows of all of them, as far as a step of `rows` goes.
template <typename Branch>
int64_t Scheduler<Branch>::blocks_needed(std::span<Branch* const> unit, int64_t rows) const {
  int64_t needed = 0;
  for (const Branch* branch : unit) {
    const int64_t n = std::min(rows, fresh(*branch));
    needed += cache_.blocks_needed(branch->sequence(), n);
    rows -= n;
  }
  return needed;
}

template <typename Branch>
int64_t Scheduler<Branch>::fresh(const Branch& branch) const {
  return std::max<int64_t>(0, std::ssize(branch.tokens()) - cache_.length(branch.sequence()));
}

// Drafts that it tries: none if they would take a block that is not free.
template <typename Branch>
int64_t Scheduler<Branch>::drafts(const Branch& branch, int64_t most, int64_t free) const {
  const int64_t n = std::min(most, static_cast<int64_t>(branch.n_drafts()));
  return cache_.blocks_needed(branch.sequence(), fresh(branch) + n) <= free ? n : 0;
}

// Of the sequences that may run, those that are there or may come by a fork.
template <typename Branch>
size_t Scheduler<Branch>::places_taken() const {
  size_t n = 0;
  for (size_t i = 0; i < n_running_; i += unit_at(i, n_running_).size()) n += branches_[i]->n_together();
  return n;
}

// All of its tokens and the next one, so that it is not preempted again before it has given anything. Those that start
// together fit together.
template <typename Branch>
bool Scheduler<Branch>::next_fits(int64_t free) const {
  if (n_running_ == branches_.size()) return false;
  const auto unit = unit_at(n_running_, branches_.size());
  const Branch& next = *unit.front();
  const auto all_of = [](const Branch& b) {
    return blocks_for(std::min<int64_t>(std::ssize(b.tokens()) + 1, b.max_positions()));
  };
  const bool begun = next.n_together() > 1 && !running_of(next.request()).empty();
  if (!begun && places_taken() + next.n_together() > limits_.max_sequences) return false;
  if (const Origin origin = origin_of(next); origin.branch != nullptr) {
    const bool computed = cache_.length(origin.branch->sequence()) >= origin.length;
    return computed && all_of(next) - origin.length / kBlockPositions + copies_by_fork(next) <= free;
  }
  const auto prefix = cache_.find_prefix(next.tokens().first(next.shareable()), next.adapter());
  int64_t needed = all_of(next) - blocks_for(prefix.length) + prefix.free_blocks;
  for (const Branch* other : unit.subspan(1)) needed += all_of(*other) - common(*other, next) / kBlockPositions + 1;
  return needed <= free;
}

template <typename Branch>
int64_t Scheduler<Branch>::common(const Branch& branch, const Branch& other) {
  const auto own = branch.tokens().first(branch.shareable());
  const auto its = other.tokens();
  return std::ranges::mismatch(own, its).in1 - own.begin();
}

template <typename Branch>
std::span<Branch* const> Scheduler<Branch>::running_of(RequestId request) const {
  const auto own = std::ranges::equal_range(running(), request, {}, [](const Branch* b) { return b->request(); });
  return {own.begin(), own.end()};
}

// The one that shares most of its tokens.
template <typename Branch>
typename Scheduler<Branch>::Origin Scheduler<Branch>::origin_of(const Branch& branch) const {
  Origin best;
  const auto own = running_of(branch.request());
  for (auto other = own.rbegin(); other != own.rend(); ++other) {
    const int64_t length = common(branch, **other);
    if (length > best.length) best = {.branch = *other, .length = length};
    if (length == static_cast<int64_t>(branch.shareable())) break;
  }
  return best;
}

// Where both go on in the middle of a block, the older one copies it, too, perhaps in the same step.
template <typename Branch>
int64_t Scheduler<Branch>::copies_by_fork(const Branch& branch) const {
  return origin_of(branch).length % kBlockPositions > 0 ? 1 : 0;
}

template <typename Branch>
Branch& Scheduler<Branch>::start_next() {
  Branch& branch = *branches_[n_running_];
  if (const Origin origin = origin_of(branch); origin.branch != nullptr) {
    branch.sequence_ = cache_.fork(origin.branch->sequence());
    cache_.truncate(branch.sequence_, origin.length);
    branch.n_cached_ = cache_.length(branch.sequence_);
  } else {
    branch.sequence_ = cache_.add_sequence(branch.adapter());
    branch.n_cached_ = cache_.share_prefix(branch.sequence_, branch.tokens().first(branch.shareable()));
  }
  const auto next = branches_.begin() + static_cast<std::ptrdiff_t>(n_running_);
  std::rotate(place_of(branch, 0, n_running_), next, next + 1);  // one that was paused is older than some that run
  ++n_running_;
  trace_.started.push_back(&branch);
  return branch;
}

template <typename Branch>
void Scheduler<Branch>::preempt_youngest() {
  const Branch* preempted = nullptr;
  do {
    Branch& branch = *branches_[--n_running_];
    cache_.release(std::exchange(branch.sequence_, -1));
    trace_.preempted.push_back(&branch);
    const auto own = branches_.begin() + static_cast<std::ptrdiff_t>(n_running_);
    std::rotate(own, own + 1, place_of(branch, n_running_ + 1, branches_.size()));  // behind older ones that wait
    preempted = &branch;
  } while (n_running_ > 0 && together(*branches_[n_running_ - 1], *preempted));
}

template <typename Branch>
std::string Scheduler<Branch>::Trace::text(const std::function<std::string(const Branch&)>& name) const {
  std::string line = fmt::format("{} block{} free", free_blocks, free_blocks == 1 ? "" : "s");
  for (const Branch* branch : preempted) line += fmt::format("; {} is preempted", name(*branch));
  for (const Branch* branch : started) {
    line += fmt::format("; {} starts", name(*branch));
    if (branch->n_cached() > 0) line += fmt::format(", {} cached", branch->n_cached());
  }
  for (const Share& share : shares) {
    line += fmt::format("{} {} {}", &share == &shares.front() ? ";" : ",", name(*share.branch), share.n_rows);
  }
  return shares.empty() ? line : line + (shares.size() == 1 && shares[0].n_rows == 1 ? " row" : " rows");
}

}  // namespace folio::infer
