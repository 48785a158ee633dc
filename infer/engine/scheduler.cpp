#include "infer/engine/scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "core/error.h"

namespace folio::infer {
namespace {

bool together(const Sequence& a, const Sequence& b) { return a.needs().n_together > 1 && a.request() == b.request(); }

int64_t n_missing(const Sequence& sequence) { return static_cast<int64_t>(sequence.n_missing()); }

// Returns the length of the sequences' common prefix, limited to the tokens that `sequence` may share.
int64_t n_common(const Sequence& sequence, const Sequence& other) {
  const auto own = sequence.tokens().first(sequence.shareable());
  return std::ranges::mismatch(own, other.tokens()).in1 - own.begin();
}

}  // namespace

Scheduler::Scheduler(BlockManager& cache, const SchedulerLimits& limits) : cache_(cache), limits_(limits) {
  core::require(limits.max_rows > 0 && limits.max_sequences > 0,
                "max_rows is {} and max_sequences is {}, but both must be at least 1", limits.max_rows,
                limits.max_sequences);
}

// Returns the sequence's position in the ordered range [first, end), or the position at which to insert it.
std::vector<Sequence*>::iterator Scheduler::place_of(const Sequence& sequence, size_t first, size_t end) {
  const auto at = [&](size_t i) { return sequences_.begin() + static_cast<std::ptrdiff_t>(i); };
  return std::ranges::lower_bound(at(first), at(end), sequence.key(), {}, &Sequence::key);
}

// Rejects sequences that can never fit. Sequences that must run together share the full blocks of their prompt. One
// extra block is counted for each, since appending to a shared block copies it before the original is released.
void Scheduler::add(Sequence& sequence) {
  const int64_t positions = sequence.needs().max_positions;
  const auto n = static_cast<int64_t>(sequence.needs().n_together);
  const int64_t shared = n == 1 ? 0 : std::ssize(sequence.tokens()) / kBlockPositions;
  const int64_t needed = shared + n * (blocks_for(positions) - shared) + (n == 1 ? 0 : n);
  const std::string prefix = n == 1 ? "" : fmt::format("{} beams of ", n);
  core::require(needed <= cache_.n_blocks(),
                "{}{} positions need {} blocks of the KV cache, which has {}; use fewer tokens or a larger cache",
                prefix, positions, needed, cache_.n_blocks());
  core::require(sequence.needs().n_together <= limits_.max_sequences,
                "{} beams exceed the maximum of {} sequences; use fewer", n, limits_.max_sequences);
  sequences_.insert(place_of(sequence, n_running_, sequences_.size()), &sequence);
}

void Scheduler::fork(Sequence& child, const Sequence& parent) {
  const SequenceId id = cache_.fork(parent.id());
  if (child.runs()) {
    cache_.release(child.id_);
  } else {
    sequences_.insert(place_of(child, 0, n_running_), &child);
    ++n_running_;
  }
  child.id_ = id;
  child.first_ = parent.first_;
  child.history_.assign(parent.history().begin(), parent.history().end());
}

void Scheduler::remove(Sequence& sequence) {
  const size_t first = sequence.runs() ? 0 : n_running_;
  const auto found = place_of(sequence, first, sequence.runs() ? n_running_ : sequences_.size());
  if (found == sequences_.end() || *found != &sequence) return;
  if (sequence.runs()) {
    cache_.release(std::exchange(sequence.id_, -1));
    --n_running_;
  }
  sequences_.erase(found);
}

const Scheduler::Trace& Scheduler::plan(const std::function<size_t(Sequence&, size_t)>& append,
                                        const std::function<void(Sequence&)>& on_preempt) {
  trace_ = {};
  int64_t rows = static_cast<int64_t>(limits_.max_rows);
  int64_t free = cache_.free_blocks();
  const bool drafts = std::ranges::any_of(running(), [](const Sequence* s) { return s->n_optional() > 0; });
  const auto needed_by = [&, rows](const Sequence& s) {
    return drafts ? cache_.blocks_needed(s.id(), std::min(rows, n_missing(s))) : 0;
  };
  int64_t later = 0;  // blocks for running sequences that are not planned yet, which drafts must leave free
  for (const Sequence* s : running()) later += needed_by(*s);
  bool open = true;  // true while more sequences may join the step
  const auto joins = [&](const Sequence& sequence) { return !sequence.needs().alone || trace_.shares.empty(); };
  const auto has_capacity = [&, n = limits_.n_steps](size_t n_sequences) {  // a step runs up to 1/n of the sequences
    return open && rows > 0 && trace_.shares.size() < (n_sequences + n - 1) / n;
  };
  const auto give = [&](Sequence& sequence) {
    int64_t most = std::min(rows, n_missing(sequence));
    if (most == 0) return;
    if (most == n_missing(sequence)) most += n_drafts(sequence, rows - most, free - later);
    free -= cache_.blocks_needed(sequence.id(), most);
    const size_t n = append(sequence, static_cast<size_t>(most));
    if (n > 0) trace_.shares.push_back({.sequence = &sequence, .n_rows = n});
    rows -= static_cast<int64_t>(n);
    open = n > 0 && !sequence.needs().alone;
  };
  const size_t n_ran = n_running_;
  for (size_t i = 0; has_capacity(n_ran) && i < n_running_;) {
    const auto unit = unit_at(i, n_running_);
    open = joins(*unit.front());
    while (open && blocks_needed(unit, rows) > free) {
      const int64_t before = cache_.free_blocks();
      preempt_youngest(on_preempt);
      free += cache_.free_blocks() - before;
      open = unit.front()->runs();
    }
    for (size_t b = 0; has_capacity(n_ran) && b < unit.size(); ++b) {
      later -= needed_by(*unit[b]);
      give(*unit[b]);
    }
    i += unit.size();
  }
  later = 0;
  while (has_capacity(sequences_.size()) && trace_.preempted.empty() && next_fits(free) &&
         joins(*sequences_[next_waiting()])) {
    const int64_t before = cache_.free_blocks();
    free -= copies_by_fork(*sequences_[next_waiting()]);
    Sequence& next = start_next();
    free -= before - cache_.free_blocks();  // cached blocks that the new sequence reuses were free until now
    give(next);
  }
  return trace_;
}

bool Scheduler::can_continue(std::span<Sequence* const> sequences) const {
  int64_t free = cache_.free_blocks();
  for (const Sequence* sequence : sequences) free -= cache_.blocks_needed(sequence->id(), 1);
  return free >= 0 && !next_fits(free);
}

// Returns the sequences before `end` that start and are preempted together with the one at `first`.
std::span<Sequence* const> Scheduler::unit_at(size_t first, size_t end) const {
  size_t n = 1;
  while (first + n < end && together(*sequences_[first], *sequences_[first + n])) ++n;
  return std::span(sequences_).subspan(first, n);
}

// Returns the number of free blocks needed for the next rows of these sequences, at most `rows` rows in total.
int64_t Scheduler::blocks_needed(std::span<Sequence* const> unit, int64_t rows) const {
  int64_t needed = 0;
  for (const Sequence* sequence : unit) {
    const int64_t n = std::min(rows, n_missing(*sequence));
    needed += cache_.blocks_needed(sequence->id(), n);
    rows -= n;
  }
  return needed;
}

// Returns how many draft tokens to try: at most `most`, or 0 if their rows need more than `free` blocks.
int64_t Scheduler::n_drafts(const Sequence& sequence, int64_t most, int64_t free) const {
  const int64_t n = std::min(most, static_cast<int64_t>(sequence.n_optional()));
  return cache_.blocks_needed(sequence.id(), n_missing(sequence) + n) <= free ? n : 0;
}

// Returns the number of running sequences, including those that a request's policy may still fork.
size_t Scheduler::places_taken() const {
  size_t n = 0;
  for (size_t i = 0; i < n_running_; i += unit_at(i, n_running_).size()) n += sequences_[i]->needs().n_together;
  return n;
}

// Returns the index of the waiting sequence to start next: the oldest one, unless sequences that run need others of
// their request. An older request that resumes would then block these, and if it does not fit, no sequence would run.
size_t Scheduler::next_waiting() const {
  for (const Sequence* s : running()) {
    if (s->needs().n_together == 1) continue;
    const auto rest = std::ranges::lower_bound(waiting(), s->request(), {}, &Sequence::request);
    if (rest != waiting().end() && together(*s, **rest)) {
      return n_running_ + static_cast<size_t>(rest - waiting().begin());
    }
  }
  return n_running_;
}

// Returns true if `free` blocks are enough for all tokens of the next waiting sequence and for one more token, so that
// it can't be preempted before it produces one. Sequences that start together must fit together.
bool Scheduler::next_fits(int64_t free) const {
  if (n_running_ == sequences_.size()) return false;
  const auto unit = unit_at(next_waiting(), sequences_.size());
  const Sequence& next = *unit.front();
  const auto all_of = [](const Sequence& b) {
    return blocks_for(std::min<int64_t>(std::ssize(b.tokens()) + 1, b.needs().max_positions));
  };
  const bool begun = next.needs().n_together > 1 && !running_of(next.request()).empty();
  if (!begun && places_taken() + next.needs().n_together > limits_.max_sequences) return false;
  if (const Origin origin = origin_of(next); origin.sequence != nullptr) {
    const bool computed = cache_.length(origin.sequence->id()) >= origin.length;
    return computed && all_of(next) - origin.length / kBlockPositions + copies_by_fork(next) <= free;
  }
  const auto prefix = cache_.find_prefix(next.tokens().first(next.shareable()), next.needs().adapter);
  int64_t needed = all_of(next) - blocks_for(prefix.length) + prefix.free_blocks;
  for (const Sequence* other : unit.subspan(1)) needed += all_of(*other) - n_common(*other, next) / kBlockPositions + 1;
  return needed <= free;
}

std::span<Sequence* const> Scheduler::running_of(RequestId request) const {
  const auto own = std::ranges::equal_range(running(), request, {}, [](const Sequence* b) { return b->request(); });
  return {own.begin(), own.end()};
}

// Returns the running sequence of the same request with the longest common prefix, from which `sequence` can be forked.
Scheduler::Origin Scheduler::origin_of(const Sequence& sequence) const {
  Origin best;
  const auto own = running_of(sequence.request());
  for (auto other = own.rbegin(); other != own.rend(); ++other) {
    const int64_t length = n_common(sequence, **other);
    if (length > best.length) best = {.sequence = *other, .length = length};
    if (length == static_cast<int64_t>(sequence.shareable())) break;
  }
  return best;
}

// Returns the number of block copies that starting `sequence` as a fork may cause: 1 if it shares a partial block.
int64_t Scheduler::copies_by_fork(const Sequence& sequence) const {
  return origin_of(sequence).length % kBlockPositions > 0 ? 1 : 0;
}

Sequence& Scheduler::start_next() {
  const auto next = sequences_.begin() + static_cast<std::ptrdiff_t>(next_waiting());
  Sequence& sequence = **next;
  if (const Origin origin = origin_of(sequence); origin.sequence != nullptr) {
    sequence.id_ = cache_.fork(origin.sequence->id());
    cache_.truncate(sequence.id_, origin.length);
    sequence.n_cached_ = cache_.length(sequence.id_);
  } else {
    sequence.id_ = cache_.add_sequence(sequence.needs().adapter);
    sequence.n_cached_ = cache_.share_prefix(sequence.id_, sequence.tokens().first(sequence.shareable()));
  }
  std::rotate(place_of(sequence, 0, n_running_), next, next + 1);  // a resumed sequence may be older than running ones
  ++n_running_;
  trace_.started.push_back(&sequence);
  return sequence;
}

void Scheduler::preempt_youngest(const std::function<void(Sequence&)>& on_preempt) {
  const Sequence* preempted = nullptr;
  do {
    Sequence& sequence = *sequences_[--n_running_];
    cache_.release(std::exchange(sequence.id_, -1));
    trace_.preempted.push_back(&sequence);
    const auto own = sequences_.begin() + static_cast<std::ptrdiff_t>(n_running_);
    std::rotate(own, own + 1, place_of(sequence, n_running_ + 1, sequences_.size()));  // keep the order of arrival
    if (on_preempt) on_preempt(sequence);
    preempted = &sequence;
  } while (n_running_ > 0 && together(*sequences_[n_running_ - 1], *preempted));
}

}  // namespace folio::infer
